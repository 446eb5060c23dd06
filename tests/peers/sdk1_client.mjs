// A client of the TypeScript SDK, version 1: see serve_client.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { PromptListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { report } from './serve_client.mjs';

const [folder, command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'sdk1', version: '1.0' }, { capabilities: {} });
const transport = new StdioClientTransport({ command, args, stderr: 'inherit' });
const changed = new Promise(resolve =>
    client.setNotificationHandler(PromptListChangedNotificationSchema, resolve)
);

async function listening() {
    await client.ping();
    await client.setLoggingLevel('warning');
}

await report(client, transport, changed, listening, folder);
