// A client of the TypeScript SDK, version 1: see serve_client.mjs and tools_client.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
    CallToolResultSchema,
    PromptListChangedNotificationSchema,
    ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import * as serve from './serve_client.mjs';
import * as tools from './tools_client.mjs';

const [folder, command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'sdk1', version: '1.0' }, { capabilities: {} });
const transport = new StdioClientTransport({ command, args, stderr: 'inherit' });
const changed = schema => new Promise(resolve => client.setNotificationHandler(schema, resolve));

async function listening() {
    await client.ping();
    await client.setLoggingLevel('warning');
}

if (folder === 'tools') {
    await tools.report(client, transport, changed(ToolListChangedNotificationSchema), listening, CallToolResultSchema);
} else {
    await serve.report(client, transport, changed(PromptListChangedNotificationSchema), listening, folder);
}
