import { join } from "node:path"
import { mustRun, type Namespace, programEnv, TemporaryDirectory, waitFor } from "../lab/mod.ts"

/** The environment variables with address and port of the API server's service, in the namespace of a test. */
export const apiEnv = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: "6443" } as const

/** A program that serves Node objects from a file. */
const server = `
import { FakeApi } from "${join(import.meta.dir, "../../agent/testing/fake-api.ts")}"
const [cert, key, nodes] = await Promise.all(process.argv.slice(-3).map((file) => Bun.file(file).text()))
const api = new FakeApi({ hostname: "${apiEnv.KUBERNETES_SERVICE_HOST}", port: ${apiEnv.KUBERNETES_SERVICE_PORT}, tls: { cert, key } })
api.troubles = { tokens: ["the token"] }
for (const node of JSON.parse(nodes)) api.put(node)
console.log("ready")
`

/** A fake API server with TLS in a namespace. */
export class NodeApi implements AsyncDisposable {
  /** The certificate that signed the server's certificate. */
  readonly ca: string
  readonly #program: Bun.Subprocess
  readonly #directory: TemporaryDirectory

  private constructor(ca: string, program: Bun.Subprocess, directory: TemporaryDirectory) {
    this.ca = ca
    this.#program = program
    this.#directory = directory
  }

  /** Starts a server that serves `nodes` and accepts the token "the token". */
  static async start(where: Namespace, nodes: readonly object[]): Promise<NodeApi> {
    const directory = await TemporaryDirectory.create("cni-api")
    const [cert, key, objects] = ["cert.pem", "key.pem", "nodes.json"].map((name) => directory.join(name)) as [
      string,
      string,
      string,
    ]
    const name = `subjectAltName=IP:${apiEnv.KUBERNETES_SERVICE_HOST}`
    const plain = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=api", "-addext", name]
    await mustRun(["openssl", "req", ...plain, "-keyout", key, "-out", cert])
    await Bun.write(objects, JSON.stringify(nodes))
    const command = where.commandLine([process.execPath, "-e", server, cert, key, objects])
    const log = Bun.file(directory.join("log"))
    const program = Bun.spawn(command, { env: { ...programEnv }, stdio: ["ignore", log, log] })
    const api = new NodeApi(await Bun.file(cert).text(), program, directory)
    await waitFor(async () => (await log.text()).includes("ready"), "the API server to listen")
    return api
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#program.kill("SIGKILL")
    await this.#program.exited
    await this.#directory[Symbol.asyncDispose]()
  }
}
