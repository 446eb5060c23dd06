// A client of the TypeScript SDK that does what calls_client.py does: node calls_client.mjs 1|2 URL CALLS
const [release, url, calls] = process.argv.slice(2);
const sdk = release === '1' ? '@modelcontextprotocol/sdk/client/' : '@modelcontextprotocol/client';
const { Client } = await import(release === '1' ? `${sdk}index.js` : sdk);
const { StreamableHTTPClientTransport } = await import(release === '1' ? `${sdk}streamableHttp.js` : sdk);
const options = release === '1' ? {} : { versionNegotiation: { mode: 'auto' } };
const client = new Client({ name: 'ts', version: '1' }, options);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
const { resources } = await client.listResources();
const { prompts } = await client.listPrompts();
const texts = [];
for (const [name, args] of JSON.parse(calls)) {
    texts.push((await client.callTool({ name, arguments: args })).content[0].text);
}
const names = items => items.map(item => item.name).sort();
console.log(JSON.stringify({ tools: names(tools), texts, resources: resources.length, prompts: names(prompts) }));
await client.close();
