// What a client of `serve` sees, as one line of JSON. It is the same for both SDKs, which differ in how they connect.
//
//   node sdk1_client.mjs FOLDER COMMAND ARGUMENT…
//   node sdk2_client.mjs legacy|auto|2026-07-28 FOLDER COMMAND ARGUMENT…
//
// With `tools` for FOLDER they are clients of sample_server.py: tools_client.mjs.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

async function failure(promise) {
    try {
        await promise;
        return null;
    } catch (error) {
        return { code: error.code, data: error.data ?? null };
    }
}

// `changed` resolves when the client was told that the list of prompts has changed.
export async function report(client, transport, changed, listening, folder) {
    await client.connect(transport);
    const told = {};
    await listening?.();
    told.server = client.getServerVersion().name;
    told.prompts = (await client.listPrompts()).prompts.map(prompt => [
        prompt.name,
        (prompt.arguments ?? []).map(argument => argument.name)
    ]);
    const prompt = await client.getPrompt({ name: 'greeting', arguments: { name: 'Ada' } });
    told.prompt = prompt.messages.map(message => [message.role, message.content.type, message.content.text]);
    const resources = (await client.listResources()).resources;
    told.resources = resources.map(resource => resource.uri);
    told.read = (await client.readResource({ uri: resources[0].uri })).contents.map(contents => contents.text);
    told.templates = (await client.listResourceTemplates()).resourceTemplates;
    told.unknownPrompt = await failure(client.getPrompt({ name: '../secret' }));
    told.missingArgument = await failure(client.getPrompt({ name: 'greeting', arguments: {} }));
    told.unknownResource = await failure(client.readResource({ uri: 'resource://templates/none.txt' }));
    const ref = { type: 'ref/prompt', name: 'review' };
    const completion = await client.complete({ ref, argument: { name: 'tone', value: 's' } });
    told.completion = completion.completion.values;
    writeFileSync(join(folder, 'later.txt'), 'Later, {{ name }}.');
    await changed;
    told.promptsLater = (await client.listPrompts()).prompts.map(prompt => prompt.name);
    await client.close();
    console.log(JSON.stringify(told));
}
