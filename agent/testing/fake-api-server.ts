import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import {
  brokenRules,
  coreResources,
  type FakeObject,
  type FakeResource,
  faultsOf,
  ipPools,
  prune,
  type Rule,
  readCustomResources,
  readRules,
} from "./fake-api-objects.ts"

/** What an account may do: all, or what its rules say. */
type Account = "all" | readonly Rule[]

/** What a request is about. */
interface Target {
  readonly resource: FakeResource
  readonly namespace: string
  readonly name: string
  readonly isStatus: boolean
  readonly query: URLSearchParams
}

interface Event {
  readonly revision: number
  readonly resource: FakeResource
  readonly before?: FakeObject
  readonly after?: FakeObject
}

interface Answer {
  readonly status: number
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface FakeOptions {
  /** Without the custom resources, as before `kubectl apply`; `addCustomResources` adds them. */
  readonly isBare?: boolean
}

/**
 * A small API server in this process, on loopback: what a real kube-apiserver answers to the requests of agents, without
 * its size. `api-statements.ts` holds both to the same answers. It knows the objects of `deploy/cluster` by their schemas, and
 * the accounts "agent" and "operator" by the roles there; "admin" may do all. Faults are made on demand.
 */
export class FakeApiServer implements AsyncDisposable {
  /** The tokens of the accounts. */
  readonly tokens = new Map<string, Account>([["admin-token", "all"]])
  /** Each request: "POST /apis/cni-agent.internal/v1/blocks". */
  readonly requests: string[] = []
  /** The form of answer that each of them asked for. */
  readonly accepted: string[] = []
  /** Lists have no objects, as those of a server that has lost sight of its store. */
  emptyLists = false
  /** How long each answer takes. */
  delayMs = 0
  readonly #resources = new Map<string, FakeResource>()
  readonly #objects = new Map<FakeResource, Map<string, FakeObject>>()
  readonly #history: Event[] = []
  readonly #watches = new Set<{ take(event: Event): void; cut(): void; end(): void; expire(): void }>()
  readonly #pages = new Map<string, { readonly rest: FakeObject[]; readonly revision: string }>()
  readonly #fates: ("lost answer" | "lost request" | Answer)[] = []
  #server: Server | undefined
  #url = ""
  #revision = 1
  /** Changes up to this one are forgotten. */
  #compacted = 0

  static async start(options: FakeOptions = {}): Promise<FakeApiServer> {
    const fake = new FakeApiServer()
    for (const resource of [...coreResources, ipPools]) fake.#add(resource)
    if (!options.isBare) await fake.addCustomResources()
    fake.tokens.set("agent-token", await readRules("cni-agent"))
    fake.tokens.set("operator-token", await readRules("cni-agent-operator"))
    fake.#write("namespaces", { metadata: { name: "kube-system" } })
    fake.#server = createServer(fake.#serve)
    const { promise, resolve } = Promise.withResolvers<void>()
    fake.#server.listen(0, "127.0.0.1", resolve)
    await promise
    const { port } = fake.#server.address() as AddressInfo
    fake.#url = `http://127.0.0.1:${port}`
    return fake
  }

  get url(): string {
    return this.#url
  }

  async addCustomResources(): Promise<void> {
    for (const resource of await readCustomResources()) this.#add(resource)
  }

  /** The next change is made, and its connection is closed without an answer. */
  loseNextAnswer(): void {
    this.#fates.push("lost answer")
  }

  /** The next change is not made, and its connection is closed without an answer. */
  loseNextRequest(): void {
    this.#fates.push("lost request")
  }

  /** The next request, of any kind, gets this answer. */
  answerNext(status: number, headers: Readonly<Record<string, string>> = {}): void {
    this.#fates.push({ ...failure(status, reasonOf[status] ?? "InternalError", "an answer for the test"), headers })
  }

  /** How many watches are open now. One that was cut or ended does not count, also before its client has noticed. */
  get watching(): number {
    return this.#watches.size
  }

  /** Breaks the connection of every watch: what was not read yet is lost. */
  cutWatches(): void {
    for (const watch of this.#watches) watch.cut()
  }

  /** Ends every watch as its time limit does: all that was written is read first. */
  endWatches(): void {
    for (const watch of this.#watches) watch.end()
  }

  /** Forgets the history: watches end with 410, and lists cannot go on. While it is `quiet`, watches hear nothing before that. */
  async compact(quiet: () => Promise<void> = async () => {}): Promise<void> {
    const watches = [...this.#watches]
    this.#watches.clear()
    await quiet()
    this.#compacted = this.#revision
    this.#history.length = 0
    this.#pages.clear()
    for (const watch of watches) watch.expire()
  }

  /** Forgets the history without a word: a watch that is opened again has to begin after it. */
  forget(): void {
    this.#compacted = this.#revision
    this.#history.length = 0
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cutWatches()
    this.#server?.closeAllConnections()
    this.#server?.close()
  }

  #add(resource: FakeResource): void {
    this.#resources.set(`${resource.group}/${resource.plural}`, resource)
    this.#objects.set(resource, new Map())
  }

  readonly #serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = "GET", url = "/" } = request
    const { pathname, searchParams } = new URL(url, "http://fake")
    this.requests.push(`${method} ${pathname}`)
    this.accepted.push(request.headers.accept ?? "")
    let text = ""
    for await (const chunk of request) text += chunk
    if (this.delayMs > 0) await Bun.sleep(this.delayMs)
    const isChange = method !== "GET"
    const fate = isChange || typeof this.#fates[0] === "object" ? this.#fates.shift() : undefined
    if (fate === "lost request") return void request.socket.destroy()
    const target = this.#targetOf(pathname, searchParams)
    const isWatch = target && method === "GET" && ["1", "true"].includes(searchParams.get("watch") ?? "")
    const answer = typeof fate === "object" ? fate : this.#refusalOf(request, target, isWatch ? "watch" : method)
    if (answer) return send(response, answer)
    if (target && isWatch) return this.#watch(target, request, response)
    const done = target ? this.#answer(method, target, text === "" ? undefined : JSON.parse(text)) : notServed
    if (fate === "lost answer") return void request.socket.destroy()
    send(response, formOf(request, done))
  }

  #targetOf(path: string, query: URLSearchParams): Target | undefined {
    const at =
      /^(?:\/api\/v1|\/apis\/([^/]+)\/v1(?:alpha1)?)(?:\/namespaces\/([^/]+)(?=\/(?:pods|ippools)))?\/([^/]+)(?:\/([^/]+))?(\/status)?$/
    const [, group = "", namespace = "", plural, name = "", status] = at.exec(path) ?? []
    const resource = this.#resources.get(`${group}/${plural}`)
    return resource && { resource, namespace, name: decodeURIComponent(name), isStatus: status !== undefined, query }
  }

  /** What a request is refused with before it is looked into: an unknown account, or one that may not do this. */
  #refusalOf({ headers }: IncomingMessage, target: Target | undefined, method: string): Answer | undefined {
    const account = this.tokens.get(/^Bearer (.*)$/.exec(headers.authorization ?? "")?.[1] ?? "")
    if (account === undefined) return failure(401, "Unauthorized", "Unauthorized")
    if (account === "all" || !target) return undefined
    const { resource, name, isStatus } = target
    const verb = { POST: "create", PUT: "update", DELETE: "delete", watch: "watch" }[method] ?? (name ? "get" : "list")
    const subject = `${resource.plural}${isStatus ? "/status" : ""}`
    const isAllowed = account.some(({ apiGroups, resources, verbs, resourceNames }) => {
      const isNamed = resourceNames === undefined || resourceNames.includes(name)
      return apiGroups.includes(resource.group) && resources.includes(subject) && verbs.includes(verb) && isNamed
    })
    if (isAllowed) return undefined
    return failure(403, "Forbidden", `${subject} is forbidden: the account cannot ${verb} it`)
  }

  #answer(method: string, target: Target, body: FakeObject | undefined): Answer {
    const known = this.#objects.get(target.resource)?.get(idOf(target.namespace, target.name))
    if (method === "GET" && target.name === "") return this.#list(target)
    if (method === "POST") return this.#create(target, body)
    if (method === "GET") return known ? { status: 200, body: known } : missing(target)
    if (method === "PUT") return this.#replace(target, known, body)
    if (method === "DELETE") return this.#delete(target, known, body)
    return failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
  }

  #list(target: Target): Answer {
    const { resource, query, namespace } = target
    const token = query.get("continue")
    const page = token ? this.#pages.get(token) : undefined
    if (token && !page) return failure(410, "Expired", "The provided continue parameter is too old")
    const all = [...(this.#objects.get(resource)?.values() ?? [])]
    const chosen = all.filter(
      (object) => isSelected(query, object) && (!namespace || object.metadata.namespace === namespace),
    )
    const inOrder = chosen.sort((a, b) => (idOfObject(a) < idOfObject(b) ? -1 : 1))
    const { rest, revision } = page ?? { rest: this.emptyLists ? [] : inOrder, revision: String(this.#revision) }
    const limit = Number(query.get("limit") ?? 0) || rest.length
    const next = rest.length > limit ? crypto.randomUUID() : ""
    if (next) this.#pages.set(next, { rest: rest.slice(limit), revision })
    const metadata = {
      resourceVersion: revision,
      ...(next && { continue: next, remainingItemCount: rest.length - limit }),
    }
    const { apiVersion, kind } = resource
    return { status: 200, body: { apiVersion, kind: `${kind}List`, metadata, items: rest.slice(0, limit) } }
  }

  #create(target: Target, body: FakeObject | undefined): Answer {
    const { resource, namespace } = target
    const name = body?.metadata?.name ?? ""
    const made = { ...target, name }
    const faults = this.#faultsOf(resource, body, name)
    if (faults.length > 0) return invalid(made, faults)
    const { status: _, ...withoutStatus } = prune(resource.schema, body) as FakeObject
    const kept = resource.schema ? withoutStatus : (body as FakeObject)
    const metadata = { name, ...(resource.isNamespaced && { namespace }) }
    const broken = resource.schema ? brokenRules(resource.plural, { ...kept, metadata }) : []
    if (broken.length > 0) return invalid(made, broken)
    if (this.#objects.get(resource)?.has(idOf(namespace, name)))
      return failure(409, "AlreadyExists", `${fullName(made)} already exists`, made)
    return { status: 201, body: this.#write(resource.plural, { ...kept, metadata }) }
  }

  #replace(target: Target, known: FakeObject | undefined, body: FakeObject | undefined): Answer {
    const { resource, isStatus } = target
    const { uid, resourceVersion } = body?.metadata ?? {}
    const faults = this.#faultsOf(resource, body, target.name)
    if (!known) return missing(target)
    if (faults.length > 0) return invalid(target, faults)
    if (!resourceVersion)
      return invalid(target, ["metadata.resourceVersion: Invalid value: 0: must be specified for an update"])
    if (uid && uid !== known.metadata.uid)
      return conflict(target, `UID in precondition: ${uid}, UID in object meta: ${known.metadata.uid}`)
    if (resourceVersion !== known.metadata.resourceVersion) return conflict(target, "the object has been modified")
    const pruned = prune(resource.schema, body) as FakeObject
    const parts = resource.hasStatus && resource.schema ? (isStatus ? ["status"] : ["spec"]) : ["spec", "status"]
    const changes = Object.fromEntries(parts.flatMap((key) => (pruned[key] === undefined ? [] : [[key, pruned[key]]])))
    const now = { ...known, ...changes }
    const broken = resource.schema ? brokenRules(resource.plural, now, known) : []
    if (broken.length > 0) return invalid(target, broken)
    if (Bun.deepEquals(now, known)) return { status: 200, body: known } // nothing is written
    return { status: 200, body: this.#write(resource.plural, now, known) }
  }

  #delete(target: Target, known: FakeObject | undefined, body: FakeObject | undefined): Answer {
    const { uid, resourceVersion } = (body?.preconditions ?? {}) as { uid?: string; resourceVersion?: string }
    if (!known) return missing(target)
    const { metadata } = known
    if (uid && uid !== metadata.uid)
      return conflict(target, `UID in precondition: ${uid}, UID in object meta: ${metadata.uid}`)
    if (resourceVersion && resourceVersion !== metadata.resourceVersion)
      return conflict(
        target,
        `ResourceVersion in precondition: ${resourceVersion}, in object meta: ${metadata.resourceVersion}`,
      )
    this.#objects.get(target.resource)?.delete(idOfObject(known))
    this.#tell({ revision: ++this.#revision, resource: target.resource, before: known })
    return { status: 200, body: { ...status("Success", 200), details: detailsOf(target) } }
  }

  /** Keeps an object, with new metadata. */
  #write(plural: string, object: { metadata: { name: string; namespace?: string } }, before?: FakeObject): FakeObject {
    const resource = [...this.#resources.values()].find((each) => each.plural === plural) as FakeResource
    const { uid = crypto.randomUUID(), creationTimestamp = new Date().toISOString() } = before?.metadata ?? {}
    const isNewSpec = !before || !Bun.deepEquals(before.spec, (object as FakeObject).spec)
    const generation = (before?.metadata.generation ?? 0) + (isNewSpec ? 1 : 0)
    const resourceVersion = String(++this.#revision)
    const { name, namespace } = object.metadata
    const metadata = { name, ...(namespace && { namespace }), uid, resourceVersion, generation, creationTimestamp }
    const { apiVersion, kind } = resource
    const after: FakeObject = { ...object, apiVersion, kind, metadata }
    this.#objects.get(resource)?.set(idOfObject(after), after)
    this.#tell({ revision: this.#revision, resource, after, ...(before && { before }) })
    return after
  }

  #tell(event: Event): void {
    this.#history.push(event)
    for (const watch of this.#watches) watch.take(event)
  }

  #faultsOf({ schema, kind }: FakeResource, body: FakeObject | undefined, name: string): string[] {
    if (body?.kind !== kind || body.metadata?.name !== name) return ["metadata.name: Invalid value"]
    const isName = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name) && name.length <= 253
    return [...(isName ? [] : [`metadata.name: Invalid value: "${name}"`]), ...faultsOf(schema, body, "")]
  }

  #watch({ resource, query }: Target, request: IncomingMessage, response: ServerResponse): void {
    const from = Number(query.get("resourceVersion") ?? 0)
    response.writeHead(200, { "content-type": "application/json" })
    response.flushHeaders()
    const write = (type: string, object: unknown) => {
      response.write(`${JSON.stringify({ type, object: formOf(request, { status: 200, body: object }).body })}\n`)
    }
    const watch = {
      take: ({ resource: other, before, after }: Event) => {
        if (other !== resource) return
        const [was, is] = [before && isSelected(query, before), after && isSelected(query, after)]
        if (is && after) write(was ? "MODIFIED" : "ADDED", after)
        else if (was && before) {
          const resourceVersion = after?.metadata.resourceVersion ?? String(this.#revision)
          write("DELETED", { ...(after ?? before), metadata: { ...before.metadata, resourceVersion } })
        }
      },
      cut: () => {
        this.#watches.delete(watch)
        request.socket.destroy()
      },
      end: () => {
        this.#watches.delete(watch)
        response.end()
      },
      expire: () => {
        const message = `too old resource version: ${from} (${this.#compacted})`
        response.end(`${JSON.stringify({ type: "ERROR", object: failure(410, "Expired", message).body })}\n`)
      },
    }
    if (from < this.#compacted) {
      watch.expire()
      return
    }
    for (const event of this.#history) if (event.revision > from) watch.take(event)
    const { apiVersion, kind } = resource
    if (query.get("allowWatchBookmarks") === "true")
      write("BOOKMARK", { apiVersion, kind, metadata: { resourceVersion: String(this.#revision) }, spec: {} })
    this.#watches.add(watch)
    const limit = setTimeout(watch.end, Number(query.get("timeoutSeconds") ?? 1800) * 1000)
    response.on("close", () => {
      clearTimeout(limit)
      this.#watches.delete(watch)
    })
  }
}

const idOf = (namespace: string, name: string) => `${namespace}/${name}`
const idOfObject = ({ metadata: { namespace = "", name } }: FakeObject) => idOf(namespace, name)

/** Whether an object is one of those that a selector of fields names: "spec.nodeName=a,status.phase!=Failed". */
function isSelected(query: URLSearchParams, object: FakeObject): boolean {
  const terms = (query.get("fieldSelector") ?? "").split(",").filter((term) => term !== "")
  return terms.every((term) => {
    const [, path = "", not, wanted] = /^([^!=]+)(!?)==?(.*)$/.exec(term) ?? []
    // biome-ignore lint/suspicious/noExplicitAny: any member of any object
    const value = path.split(".").reduce((at: any, key) => at?.[key], object) ?? ""
    return not ? value !== wanted : value === wanted
  })
}

/** An answer in the form that was asked for: the whole, or metadata alone. */
function formOf({ headers }: IncomingMessage, answer: Answer): Answer {
  if (!/as=PartialObjectMetadata(List)?;/.test(headers.accept ?? "") || answer.status >= 300) return answer
  const apiVersion = "meta.k8s.io/v1"
  const partial = ({ metadata }: FakeObject) => ({ apiVersion, kind: "PartialObjectMetadata", metadata })
  const list = answer.body as FakeObject & { items?: FakeObject[] }
  if (!list.items) return { ...answer, body: partial(list) }
  const { metadata, items } = list
  return { ...answer, body: { apiVersion, kind: "PartialObjectMetadataList", metadata, items: items.map(partial) } }
}

const reasonOf: Readonly<Record<number, string>> = { 429: "TooManyRequests", 500: "InternalError", 504: "Timeout" }

function status(outcome: "Success" | "Failure", code: number) {
  return { kind: "Status", apiVersion: "v1", metadata: {}, status: outcome, code }
}

function detailsOf({ name, resource: { group, plural } }: Target) {
  return { name, ...(group && { group }), kind: plural }
}

function failure(code: number, reason: string, message: string, about?: Target): Answer {
  return {
    status: code,
    body: { ...status("Failure", code), message, reason, ...(about && { details: detailsOf(about) }) },
  }
}

function fullName({ name, resource: { group, plural } }: Target): string {
  return `${plural}${group && `.${group}`} "${name}"`
}

const missing = (target: Target) => failure(404, "NotFound", `${fullName(target)} not found`, target)

function conflict(target: Target, why: string): Answer {
  return failure(409, "Conflict", `Operation cannot be fulfilled on ${fullName(target)}: ${why}`, target)
}

function invalid(target: Target, faults: readonly string[]): Answer {
  const { kind, group } = target.resource
  return failure(422, "Invalid", `${kind}.${group} "${target.name}" is invalid: ${faults.join(", ")}`, target)
}

/** What a path that no resource has is answered with: not an object. */
const notServed: Answer = { status: 404, body: "404 page not found\n", headers: { "content-type": "text/plain" } }

function send(response: ServerResponse, { status, body, headers }: Answer): void {
  const text = typeof body === "string" ? body : JSON.stringify(body)
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(text)
}
