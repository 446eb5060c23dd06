// A client of the TypeScript SDK that uses the server of conformance/ over HTTP or stdio, and prints what it got.
// node mcp_client.mjs 1|2[,MODE] URL, or a command; MCP_PREFIX is what a gateway puts in front of the names.
const prefix = process.env.MCP_PREFIX ?? '';
const [client_and_mode, url, ...args] = process.argv.slice(2);
const [release, mode = 'auto'] = client_and_mode.split(',');
const sdk = release === '1' ? '@modelcontextprotocol/sdk/client/' : '@modelcontextprotocol/client';
const { Client } = await import(release === '1' ? `${sdk}index.js` : sdk);
const { StreamableHTTPClientTransport } = await import(release === '1' ? `${sdk}streamableHttp.js` : sdk);
const negotiation = mode === 'legacy' || mode === 'auto' ? mode : { pin: mode };
const options = release === '1' ? {} : { versionNegotiation: { mode: negotiation } };
const client = new Client({ name: 'ts', version: '1' }, { capabilities: { elicitation: {} }, ...options });
const answer = async () => ({ action: 'accept', content: { response: 'yes' } });
if (release === '1') {
    const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');
    client.setRequestHandler(ElicitRequestSchema, answer);
} else {
    client.setRequestHandler('elicitation/create', answer);
}
const { StdioClientTransport } = await import(`${sdk}${release === '1' ? 'stdio.js' : '/stdio'}`);
const transport = args.length
    ? new StdioClientTransport({ command: url, args, env: process.env })
    : new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

const progress = [];
const onprogress = ({ progress: value, total }) => progress.push([value, total]);
const call = (name, args, ...more) => client.callTool({ name: prefix + name, arguments: args }, ...more);
const { tools } = await client.listTools();
const text = await call('test_simple_text', {});
await call('test_tool_with_progress', {}, ...(release === '1' ? [undefined] : []), { onprogress });
const asked = await call('test_elicitation', { message: 'Sure?' });
const resource = await client.readResource({ uri: 'test://static-text' });
const prompt = await client.getPrompt({ name: `${prefix}test_prompt_with_arguments`, arguments: { arg1: 'a', arg2: 'b' } });
console.log(JSON.stringify({
    has_tool: tools.some(tool => tool.name === `${prefix}test_simple_text`),
    text: text.content[0].text,
    progress,
    asked: asked.content[0].text,
    resource: resource.contents[0].text,
    prompt: prompt.messages[0].content.text
}));
await client.close();
