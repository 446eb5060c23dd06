// Prints what a client of `serve` sees, as one line of JSON: the same for both SDKs, which only connect differently.
//
//   node sdk1_client.mjs FOLDER COMMAND ARGUMENT…
//   node sdk2_client.mjs legacy|auto|2026-07-28 FOLDER COMMAND ARGUMENT…
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

// `changed` resolves when the client is notified that the list of prompts has changed.
export async function report(client, transport, changed, listening, folder) {
    await client.connect(transport);
    const seen = {};
    await listening?.();
    seen.server = client.getServerVersion().name;
    seen.prompts = (await client.listPrompts()).prompts.map(prompt => [
        prompt.name,
        (prompt.arguments ?? []).map(argument => argument.name)
    ]);
    const prompt = await client.getPrompt({ name: 'greeting', arguments: { name: 'Ada' } });
    seen.prompt = prompt.messages.map(message => [message.role, message.content.type, message.content.text]);
    const resources = (await client.listResources()).resources;
    seen.resources = resources.map(resource => resource.uri);
    seen.read = (await client.readResource({ uri: resources[0].uri })).contents.map(contents => contents.text);
    seen.templates = (await client.listResourceTemplates()).resourceTemplates;
    seen.unknownPrompt = await failure(client.getPrompt({ name: '../secret' }));
    seen.missingArgument = await failure(client.getPrompt({ name: 'greeting', arguments: {} }));
    seen.unknownResource = await failure(client.readResource({ uri: 'resource://templates/none.txt' }));
    const ref = { type: 'ref/prompt', name: 'review' };
    const completion = await client.complete({ ref, argument: { name: 'tone', value: 's' } });
    seen.completion = completion.completion.values;
    writeFileSync(join(folder, 'later.txt'), 'Later, {{ name }}.');
    await changed;
    seen.promptsLater = (await client.listPrompts()).prompts.map(prompt => prompt.name);
    await client.close();
    console.log(JSON.stringify(seen));
}
