// openmem for OpenCode 2, as far as its published types allow. They hold no hook on a session or a
// prompt; but each request of a model is made through a language model that a plug-in may wrap, and
// its headers name the session. So a session is registered before its first request, and a turn is
// handed over when a reply has ended. What openmem recalls is not given: nothing here is stored, and
// a text that is in one request and not in the next would cost the provider's cache.
import { spawn } from "node:child_process"

const HOOK = "" // filled in by the installer
const LIMIT_MS = 2500
const SAID_CHARACTERS = 12000

function run(event, payload) {
  return new Promise((done) => {
    let timer
    const end = () => {
      clearTimeout(timer)
      done()
    }
    try {
      const child = spawn(HOOK, [event, "--agent", "opencode"], {
        stdio: ["pipe", "ignore", "ignore"],
      })
      timer = setTimeout(() => {
        child.kill("SIGKILL")
        end()
      }, LIMIT_MS)
      child.on("error", end)
      child.on("close", end)
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      end()
    }
  })
}

function header(headers, name) {
  const found = Object.entries(headers ?? {}).find(([key]) => key.toLowerCase() === name)
  return found ? String(found[1]) : ""
}

function lastPrompt(prompt) {
  const message = Array.isArray(prompt) ? prompt.findLast((one) => one.role === "user") : undefined
  const parts = Array.isArray(message?.content) ? message.content : []
  const texts = parts.filter((part) => part.type === "text").map((part) => part.text)
  return texts.join("\n").slice(0, SAID_CHARACTERS)
}

function wrapped(model, known) {
  const begin = async (options) => {
    const id = header(options?.headers, "x-session-id")
    if (!id || header(options?.headers, "x-parent-session-id")) return ""
    if (!known.has(id)) {
      known.add(id)
      await run("session-start", { session_id: id, cwd: process.cwd(), source: "startup" })
    }
    return id
  }
  const end = (id, options, text) =>
    run("stop", {
      session_id: id,
      cwd: process.cwd(),
      prompt: lastPrompt(options.prompt),
      last_assistant_message: text.slice(0, SAID_CHARACTERS),
    })
  const doStream = async (options) => {
    let id = ""
    try {
      id = await begin(options)
    } catch {} // the person's request goes on
    const answer = await model.doStream(options)
    if (!id) return answer
    let text = ""
    const heard = new TransformStream({
      transform(part, controller) {
        controller.enqueue(part)
        if (part?.type === "text-delta") text += part.delta ?? ""
        const reason = part?.finishReason?.unified ?? part?.finishReason
        if (part?.type === "finish" && reason === "stop") void end(id, options, text)
      },
    })
    return { ...answer, stream: answer.stream.pipeThrough(heard) }
  }
  return new Proxy(model, {
    get: (target, name) => {
      if (name === "doStream") return doStream
      const value = Reflect.get(target, name, target)
      return typeof value === "function" ? value.bind(target) : value
    },
  })
}

export default {
  id: "openmem",
  setup: async (context) => {
    const known = new Set()
    await context.aisdk.language((given) => {
      if (given.language) given.language = wrapped(given.language, known)
    })
  },
}
