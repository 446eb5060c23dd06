// A client of the TypeScript SDK, version 2: see serve_client.mjs and tools_client.mjs.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import * as serve from './serve_client.mjs';
import * as tools from './tools_client.mjs';

const [mode, folder, command, ...args] = process.argv.slice(2);
const negotiation = mode === 'legacy' || mode === 'auto' ? mode : { pin: mode };
const client = new Client({ name: 'sdk2', version: '1.0' }, { versionNegotiation: { mode: negotiation } });
const transport = new StdioClientTransport({ command, args, stderr: 'inherit' });
const changed = method => new Promise(resolve => client.setNotificationHandler(method, resolve));
const [kind, other] = folder === 'tools' ? ['tools', 'prompts'] : ['prompts', 'tools'];

async function listening() {
    if (mode === 'legacy') {
        await client.ping();
        return;
    }
    const filter = { [`${kind}ListChanged`]: true, [`${other}ListChanged`]: false };
    const subscription = await client.listen(filter);
    if (JSON.stringify(subscription.honoredFilter) !== `{"${kind}ListChanged":true}`) {
        throw new Error('another filter was honoured');
    }
}

const listChanged = changed(`notifications/${kind}/list_changed`);
if (folder === 'tools') {
    await tools.report(client, transport, listChanged, listening);
} else {
    await serve.report(client, transport, listChanged, listening, folder);
}
