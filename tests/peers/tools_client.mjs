// Prints what a client of sample_server.py sees, as one line of JSON: the same for both SDKs.
// `schema` is the schema of a result, which version 1 needs.
export async function report(client, transport, changed, listening, ...schema) {
    await client.connect(transport);
    const seen = {};
    await listening?.();
    const tools = (await client.listTools()).tools;
    seen.tools = tools.map(tool => [tool.name, Object.keys(tool.inputSchema.properties)]);
    seen.sum = (await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } })).structuredContent;
    const wrong = await client.callTool({ name: 'add', arguments: { a: 'two' } });
    seen.wrong = [wrong.isError, wrong.content[0].text];
    seen.progress = [];
    const onprogress = ({ progress, total }) => seen.progress.push([progress, total]);
    const counted = { name: 'count', arguments: { to: 3 } };
    const version = await client.request({ method: 'tools/call', params: counted }, ...schema, { onprogress });
    seen.version = version.content[0].text;
    seen.prompt = (await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } })).messages[0].content.text;
    seen.memo = (await client.readResource({ uri: 'memo://x' })).contents[0].text;
    await client.callTool({ name: 'grow' });
    await changed;
    seen.later = (await client.callTool({ name: 'grown' })).content[0].text;
    await client.close();
    console.log(JSON.stringify(seen));
}
