// A server of the TypeScript SDK 1.x over stdio, with the tools, prompts and resources that tests/mcp/client expects.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

const server = new McpServer({ name: 'sdk1', version: '1' }, { capabilities: { logging: {} } });
const text = value => ({ content: [{ type: 'text', text: String(value) }] });
let cancelled = 0;

server.registerTool('add', { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } }, ({ a, b }) => ({
    ...text(a + b),
    structuredContent: { sum: a + b }
}));
server.registerTool('fail', {}, () => {
    throw new Error('it failed');
});
server.registerTool('count', { inputSchema: { to: z.number() } }, async ({ to }, extra) => {
    for (let progress = 1; progress <= to; progress++) {
        const params = { progressToken: extra._meta?.progressToken, progress, total: to };
        await extra.sendNotification({ method: 'notifications/progress', params });
    }
    return text(to);
});
server.registerTool('wait', {}, async extra => {
    await new Promise(resolve => extra.signal.addEventListener('abort', resolve));
    cancelled++;
    return text('too late');
});
server.registerTool('cancelled', {}, () => text(cancelled));
server.registerTool('ask', {}, async () => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    const reply = await server.server.elicitInput({ message: 'Who?', requestedSchema });
    return text(reply.content.name);
});
server.registerTool('log', {}, async () => {
    await server.sendLoggingMessage({ level: 'error', data: 'from the tool' });
    return text('');
});
server.registerPrompt('greet', { argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Hello ${name}` } }]
}));
server.registerResource('one', 'memo://one', {}, uri => ({ contents: [{ uri: uri.href, text: 'first' }] }));

await server.connect(new StdioServerTransport());
process.stdin.on('end', () => server.close());
