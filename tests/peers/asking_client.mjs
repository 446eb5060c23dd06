// A client of asking_server.py, with either SDK: asking_client.mjs 1|legacy|2026-07-28 COMMAND ARGUMENT…
// Prints the results that it gets and the requests that it serves, as one line of JSON.
const [version, command, ...args] = process.argv.slice(2);
const name = version === '1' ? '@modelcontextprotocol/sdk/client' : '@modelcontextprotocol/client';
const { Client } = await import(version === '1' ? `${name}/index.js` : name);
const { StdioClientTransport } = await import(version === '1' ? `${name}/stdio.js` : `${name}/stdio`);
const schemas = version === '1' ? await import('@modelcontextprotocol/sdk/types.js') : {};

const mode = version === 'legacy' ? version : { pin: version };
const client = new Client(
    { name: 'asking-client', version: '1.0' },
    { capabilities: { roots: {}, sampling: {}, elicitation: { form: {} } }, versionNegotiation: { mode } }
);
const asked = [];
const serve = (method, schema, result) =>
    client.setRequestHandler(schemas[schema] ?? method, async request => {
        asked.push(request.method);
        return result(request.params);
    });
serve('roots/list', 'ListRootsRequestSchema', () => ({ roots: [{ uri: 'file:///a' }] }));
serve('elicitation/create', 'ElicitRequestSchema', () => ({ action: 'accept', content: { name: 'Ada' } }));
serve('sampling/createMessage', 'CreateMessageRequestSchema', params => {
    const { text } = [params.messages[0].content].flat()[0];
    return { role: 'assistant', model: 'm', content: { type: 'text', text: `${text} Hello!` } };
});

await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' }));
const tool = (await client.callTool({ name: 'introduce' })).content[0].text;
const prompt = (await client.getPrompt({ name: 'where' })).messages[0].content.text;
const resource = (await client.readResource({ uri: 'memo://where' })).contents[0].text;
await client.close();
console.log(JSON.stringify({ tool, prompt, resource, asked }));
