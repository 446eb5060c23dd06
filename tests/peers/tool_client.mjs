// Calls the tools of a server with either SDK, and prints the results as one line of JSON:
// tool_client.mjs 1|2 COMMAND ARGUMENT…
const [version, command, ...args] = process.argv.slice(2);
const name = version === '1' ? '@modelcontextprotocol/sdk/client' : '@modelcontextprotocol/client';
const { Client } = await import(version === '1' ? `${name}/index.js` : name);
const { StdioClientTransport } = await import(version === '1' ? `${name}/stdio.js` : `${name}/stdio`);

const client = new Client({ name: 'tool-client', version: '1.0' });
await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
const tools = (await client.listTools()).tools.map(tool => tool.name);
const calls = Array.from({ length: 100 }, (_, n) => client.callTool({ name: 'echo', arguments: { n } }));
const answers = (await Promise.all(calls)).map(result => result.structuredContent.n);
const large = await client.callTool({ name: 'echo', arguments: { letters: 1000000 } });
await client.close();
console.log(JSON.stringify({ tools, answers, letters: large.content[0].text.length }));
