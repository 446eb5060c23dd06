"""One request at a server: the rules for serving it, its context, and its rounds, tasks and subscriptions.

handshake       the server's side of the handshake, without IO
context         `Context`: the request of a function, and messages to the client
session         the session of a client: requests, notifications and log messages to it
inputs          requests to modern clients, in several rounds
request_state   the state that a modern client carries from round to round
tasks           one task: a tool whose call continues after its response
task_store      all tasks of a server, and the requests about them
subscriptions   the changes that a client is notified of
lifespan        resources that the server opens before it serves
"""
