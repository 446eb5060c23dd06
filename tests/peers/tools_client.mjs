// What a client of sample_server.py sees, as one line of JSON: it is the same for both SDKs.
// `schema` is what the SDK wants to know of a result: version 1 has to be told.
export async function report(client, transport, changed, listening, ...schema) {
    await client.connect(transport);
    const told = {};
    await listening?.();
    const tools = (await client.listTools()).tools;
    told.tools = tools.map(tool => [tool.name, Object.keys(tool.inputSchema.properties)]);
    told.sum = (await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } })).structuredContent;
    const wrong = await client.callTool({ name: 'add', arguments: { a: 'two' } });
    told.wrong = [wrong.isError, wrong.content[0].text];
    told.progress = [];
    const onprogress = ({ progress, total }) => told.progress.push([progress, total]);
    const counted = { name: 'count', arguments: { to: 3 } };
    const version = await client.request({ method: 'tools/call', params: counted }, ...schema, { onprogress });
    told.version = version.content[0].text;
    told.prompt = (await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } })).messages[0].content.text;
    told.memo = (await client.readResource({ uri: 'memo://x' })).contents[0].text;
    await client.callTool({ name: 'grow' });
    await changed;
    told.later = (await client.callTool({ name: 'grown' })).content[0].text;
    await client.close();
    console.log(JSON.stringify(told));
}
