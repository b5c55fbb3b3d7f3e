import { readFileSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { CniError, Code, isJsonObject, type JsonObject, messageOf } from "../../pkg/types/mod.ts"
import { type Connection, type Secret, SecretFile } from "./connection.ts"

/** Reads a kubeconfig file. Throws error code 7 with the reason if it is unusable. */
export function readKubeconfig(path: string): Connection {
  let text: string
  try {
    text = readFileSync(path, "utf8")
  } catch (cause) {
    throw refuse(path, `it cannot be read: ${messageOf(cause)}`)
  }
  return parseKubeconfig(text, path)
}

/**
 * Returns the connection of a kubeconfig's current context. Relative paths start at the file's directory. Does not run
 * programs that create credentials (`exec`, `auth-provider`), because the agent has neither their files nor their
 * environment.
 */
export function parseKubeconfig(text: string, path: string): Connection {
  let config: unknown
  try {
    config = Bun.YAML.parse(text)
  } catch (cause) {
    throw refuse(path, `it is not YAML: ${messageOf(cause)}`)
  }
  if (!isJsonObject(config)) throw refuse(path, "it is not an object")
  const current = textOf(config, "current-context", path)
  if (!current) throw refuse(path, 'it has no "current-context"')
  const context = named(config, "context", current, path)
  const cluster = named(config, "cluster", textOf(context, "cluster", path), path)
  const user = named(config, "user", textOf(context, "user", path), path)
  return connectionOf(cluster, user, path)
}

/** Returns the element with this name in a list such as `users: [{name, user}]`. */
function named(config: JsonObject, key: string, name: string, path: string): JsonObject {
  const list = config[`${key}s`]
  const entries = Array.isArray(list) ? list : []
  const entry = entries.find((each) => isJsonObject(each) && each.name === name)
  if (!isJsonObject(entry)) throw refuse(path, `it has no ${key} "${name}"`)
  return isJsonObject(entry[key]) ? entry[key] : {}
}

/** Returns the text of a key, or "" if the key is absent. */
function textOf(object: JsonObject, key: string, path: string): string {
  const value = object[key] ?? ""
  if (typeof value === "string") return value
  throw refuse(path, `"${key}" is not a string`)
}

/** Unsupported settings. The agent rejects them, because a connection without them would differ from kubectl's. */
const notSupported = {
  cluster: ["insecure-skip-tls-verify", "tls-server-name", "proxy-url"],
  user: ["exec", "auth-provider", "username", "as"],
} as const

function connectionOf(cluster: JsonObject, user: JsonObject, path: string): Connection {
  for (const [from, keys] of [[cluster, notSupported.cluster] as const, [user, notSupported.user] as const]) {
    const key = keys.find((each) => from[each] !== undefined && from[each] !== null && from[each] !== false)
    if (key) throw refuse(path, `"${key}" is not supported: use certificates, "token" or "tokenFile"`)
  }
  const server = textOf(cluster, "server", path)
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol))
    throw refuse(path, `"${server}" is not a URL`)
  const token = secretOf(user, { data: "token", file: "tokenFile", decode: (text) => text }, path)
  const secrets = {
    ca: secretOf(cluster, inBase64("certificate-authority"), path),
    certificate: secretOf(user, inBase64("client-certificate"), path),
    key: secretOf(user, inBase64("client-key"), path),
  }
  return {
    server: server.replace(/\/+$/, ""),
    ...(secrets.ca && { ca: secrets.ca }),
    ...(secrets.certificate && { certificate: secrets.certificate }),
    ...(secrets.key && { key: secrets.key }),
    ...(token && { token }),
  }
}

/** The keys of a secret: one for its data, and one for the path of its file. */
interface SecretKeys {
  readonly data: string
  readonly file: string
  decode(text: string): string
}

const inBase64 = (file: string): SecretKeys => ({
  data: `${file}-data`,
  file,
  decode: (text) => Buffer.from(text, "base64").toString(),
})

/** Returns a secret. As in kubectl, data in the file takes precedence over a path. */
function secretOf(from: JsonObject, { data, file, decode }: SecretKeys, path: string): Secret | undefined {
  const [text, name] = [textOf(from, data, path), textOf(from, file, path)]
  if (text) return { read: async () => decode(text) }
  return name ? new SecretFile(resolve(dirname(path), name)) : undefined
}

function refuse(path: string, reason: string): CniError {
  return new CniError(Code.InvalidNetworkConfig, `Cannot use kubeconfig "${path}": ${reason}`)
}
