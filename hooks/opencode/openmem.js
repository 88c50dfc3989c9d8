// openmem: tells openmem-hook of OpenCode's sessions. It holds no logic of its own: at a prompt it
// registers the session and puts what openmem answers before the prompt, as a part that OpenCode
// stores, so that every later request repeats the same bytes; when a turn has ended it hands the
// turn over; a call that names us it lets openmem look at first. Every hook has a time limit and
// swallows its faults, because one that throws fails the person's run; only a call is refused by
// throwing, and the model is given the words. OpenCode does not wait for what an event starts;
// `dispose` does.
import { spawn } from "node:child_process"

const HOOK = "" // filled in by the installer
const LIMIT_MS = { "session-start": 2500, prompt: 1500, stop: 2500, tool: 1500 }
const LOOK_MS = 500
const HOOK_MS = 6000
const SAID_CHARACTERS = 12000
const PLACEHOLDER = "[openmem: "

const after = (ms) => new Promise((done) => setTimeout(done, ms).unref?.())
const within = (ms, work) => Promise.race([work, after(ms)])

function run(event, payload, provider = "") {
  return new Promise((done) => {
    let text = ""
    let timer
    const end = (result) => {
      clearTimeout(timer)
      done(result)
    }
    try {
      const child = spawn(HOOK, [event, "--agent", "opencode"], {
        stdio: ["pipe", "pipe", "ignore"],
        env: { ...process.env, OPENMEM_HOOK_PROVIDER: provider },
      })
      timer = setTimeout(() => {
        child.kill("SIGKILL")
        end("")
      }, LIMIT_MS[event])
      child.on("error", () => end(""))
      child.on("close", () => end(text))
      child.stdout.setEncoding("utf8")
      child.stdout.on("data", (part) => (text += part))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      end("")
    }
  })
}

function contextOf(stdout) {
  try {
    return JSON.parse(stdout).hookSpecificOutput.additionalContext || ""
  } catch {
    return "" // nothing to tell, or a launcher that could not run
  }
}

function refusalOf(stdout) {
  try {
    const told = JSON.parse(stdout).hookSpecificOutput
    return told.permissionDecision === "deny" ? told.permissionDecisionReason || "" : ""
  } catch {
    return "" // nothing against it, or a launcher that could not run
  }
}

const guarded = (hook) => async (...given) => {
  try {
    return await within(HOOK_MS, hook(...given))
  } catch {} // the person's run goes on; openmem's own log says what failed
}

export const Openmem = async ({ client, directory }) => {
  const sessions = new Map()
  const pending = new Set()

  const of = (id) => {
    if (!sessions.has(id)) sessions.set(id, { source: "resume", folder: directory })
    return sessions.get(id)
  }
  const payload = (id, more) => ({ session_id: id, cwd: of(id).folder, ...more })

  // A sub-agent is a session of its own here; openmem knows it as a part of its parent's.
  const look = async (id) => {
    const session = of(id)
    if (session.known) return session
    const asked = client.session.get({ path: { id } }).catch(() => undefined)
    const found = (await within(LOOK_MS, asked))?.data
    if (found) {
      session.known = true
      session.folder = found.directory || directory
      session.parent = found.parentID || session.parent
    }
    return session
  }

  // The session at the top: a sub-agent may have sub-agents of its own.
  const topOf = async (id) => {
    const seen = new Set()
    for (let parent; (parent = (await look(id)).parent) && !seen.has(parent); id = parent) seen.add(parent)
    return id
  }

  const handOver = (id) => {
    const session = of(id)
    if (session.parent || session.prompt === undefined) return
    const turn = { prompt: session.prompt, last_assistant_message: session.said ?? "" }
    session.prompt = session.said = undefined
    const work = run("stop", payload(id, turn)).finally(() => pending.delete(work))
    pending.add(work)
  }

  // What the model was shown names the session at the top, in its sub-agents too.
  const against = guarded(async (tool, sessionID, args) => {
    if (!JSON.stringify(args ?? "").includes(PLACEHOLDER)) return ""
    const call = { tool_name: tool, tool_input: args }
    return refusalOf(await run("tool", payload(await topOf(sessionID), call)))
  })

  return {
    "tool.execute.before": async ({ tool, sessionID }, output) => {
      const reason = await against(tool, sessionID, output?.args)
      if (reason) throw new Error(reason)
    },

    event: guarded(async ({ event }) => {
      const { sessionID, info } = event.properties ?? {}
      if (event.type === "session.created")
        sessions.set(sessionID, {
          source: "startup",
          folder: info?.directory || directory,
          parent: info?.parentID,
        })
      if (event.type === "session.compacted")
        Object.assign(of(sessionID), { told: false, source: "compact" })
      if (event.type === "session.deleted") sessions.delete(info?.id ?? sessionID)
      if (event.type === "session.idle") handOver(sessionID)
    }),

    "chat.message": guarded(async ({ sessionID }, { message, parts }) => {
      const session = await look(sessionID)
      if (session.parent) return
      const said = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = said.map((part) => part.text).join("\n")
      const provider = message.model?.providerID ?? ""
      const told = []
      if (!session.told) {
        session.told = true
        told.push(await run("session-start", payload(sessionID, { source: session.source }), provider))
      }
      told.push(await run("prompt", payload(sessionID, { prompt }), provider))
      session.prompt = prompt.slice(0, SAID_CHARACTERS)
      const text = told.map(contextOf).filter(Boolean).join("\n")
      if (!text) return
      // Parts are ordered by id, so this one comes before the prompt's.
      const order = Date.now().toString(16).padStart(14, "0")
      const id = `prt_0${order}${Math.random().toString(36).slice(2, 10)}`
      parts.unshift({ id, sessionID, messageID: message.id, type: "text", synthetic: true, text })
    }),

    "experimental.text.complete": guarded(async ({ sessionID }, { text }) => {
      of(sessionID).said = text.slice(0, SAID_CHARACTERS)
    }),

    // Only to our own proxy, which does not pass it on: titles and summaries are known by it.
    "chat.headers": guarded(async ({ sessionID, agent, provider }, { headers }) => {
      const url = (provider?.info ?? provider)?.options?.baseURL ?? ""
      if (!url.includes("/a/opencode-")) return
      if (typeof agent === "string") headers["x-openmem-agent"] = agent
      const top = await topOf(sessionID)
      if (![sessionID, of(sessionID).parent].includes(top)) headers["x-openmem-session-id"] = top
    }),

    dispose: guarded(async () => {
      await Promise.all(pending)
    }),
  }
}
