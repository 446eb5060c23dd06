// A client of the TypeScript SDK, version 2: see serve_client.mjs.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { report } from './serve_client.mjs';

const [mode, folder, command, ...args] = process.argv.slice(2);
const negotiation = mode === 'legacy' || mode === 'auto' ? mode : { pin: mode };
const client = new Client({ name: 'sdk2', version: '1.0' }, { versionNegotiation: { mode: negotiation } });
const transport = new StdioClientTransport({ command, args, stderr: 'inherit' });
const changed = new Promise(resolve =>
    client.setNotificationHandler('notifications/prompts/list_changed', resolve)
);

async function listening() {
    if (mode === 'legacy') {
        await client.ping();
        return;
    }
    const subscription = await client.listen({ promptsListChanged: true, toolsListChanged: false });
    if (JSON.stringify(subscription.honoredFilter) !== '{"promptsListChanged":true}') {
        throw new Error('another filter was honoured');
    }
}

await report(client, transport, changed, listening, folder);
