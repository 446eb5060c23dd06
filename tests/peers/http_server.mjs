// A server of the TypeScript SDK over HTTP, for this package's client: node http_server.mjs 1|2 PORT
import { createServer } from 'node:http';
import { z } from 'zod';

const [release, port] = process.argv.slice(2);

function register(server) {
    const inputSchema = release === '1' ? { a: z.number(), b: z.number() } : z.object({ a: z.number(), b: z.number() });
    server.registerTool('add', { inputSchema }, ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }] }));
    return server;
}

async function sessions() {
    const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js');
    const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
    const transports = new Map();
    return async (request, response) => {
        let transport = transports.get(request.headers['mcp-session-id']);
        if (transport === undefined) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: () => crypto.randomUUID(),
                onsessioninitialized: id => transports.set(id, transport)
            });
            await register(new McpServer({ name: 'sdk1', version: '1' })).connect(transport);
        }
        await transport.handleRequest(request, response);
    };
}

async function requests() {
    const { McpServer, createMcpHandler } = await import('@modelcontextprotocol/server');
    const handler = createMcpHandler(() => register(new McpServer({ name: 'sdk2', version: '2' })));
    return async (request, response) => {
        const chunks = await Array.fromAsync?.(request) ?? (await request.toArray());
        const { method, headers, url } = request;
        const body = chunks.length ? Buffer.concat(chunks) : undefined;
        const answer = await handler.fetch(new Request(`http://localhost:${port}${url}`, { method, headers, body }));
        response.writeHead(answer.status, Object.fromEntries(answer.headers));
        response.end(Buffer.from(await answer.arrayBuffer()));
    };
}

createServer(release === '1' ? await sessions() : await requests()).listen(Number(port), '127.0.0.1');
