// A server of the TypeScript SDK 2.x over stdio, for old and new clients, like sdk1_server.mjs.
import { acceptedContent, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const text = value => ({ content: [{ type: 'text', text: String(value) }] });
const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
let cancelled = 0;

serveStdio(() => {
    const server = new McpServer({ name: 'sdk2', version: '2' }, { capabilities: { logging: {} } });
    const add = { inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) };
    server.registerTool('add', add, ({ a, b }) => ({ ...text(a + b), structuredContent: { sum: a + b } }));
    server.registerTool('fail', {}, () => {
        throw new Error('it failed');
    });
    server.registerTool('count', { inputSchema: z.object({ to: z.number() }) }, async ({ to }, ctx) => {
        for (let progress = 1; progress <= to; progress++) {
            const params = { progressToken: ctx.mcpReq._meta?.progressToken, progress, total: to };
            await ctx.mcpReq.notify({ method: 'notifications/progress', params });
        }
        return text(to);
    });
    server.registerTool('wait', {}, async ctx => {
        await new Promise(resolve => ctx.mcpReq.signal.addEventListener('abort', resolve));
        cancelled++;
        return text('too late');
    });
    server.registerTool('cancelled', {}, () => text(cancelled));
    server.registerTool('ask', {}, async ctx => {
        const isModern = ctx.mcpReq.envelope !== undefined;
        if (!isModern) {
            const reply = await ctx.mcpReq.elicitInput({ mode: 'form', message: 'Who?', requestedSchema });
            return text(reply.content.name);
        }
        const content = acceptedContent(ctx.mcpReq.inputResponses, 'who');
        if (content === undefined) {
            return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who?', requestedSchema }) } });
        }
        return text(content.name);
    });
    server.registerTool('log', {}, async ctx => {
        await ctx.mcpReq.log('error', 'from the tool');
        return text('');
    });
    server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Hello ${name}` } }]
    }));
    server.registerResource('one', 'memo://one', {}, uri => ({ contents: [{ uri: uri.href, text: 'first' }] }));
    return server;
});
