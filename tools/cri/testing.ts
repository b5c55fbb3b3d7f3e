import { join } from "node:path"

/** What a runtime of tests answers: a StatusResponse, an error, or nothing at all. */
export type Answer = object | { readonly error: { readonly code: number; readonly details: string } } | "nothing"

/** The program: a server for each name, made of gRPC's own library, by the definition that the tests of real runtimes have. */
const program = `
  const { Server, ServerCredentials, loadPackageDefinition } = require("@grpc/grpc-js")
  const { loadSync } = require("@grpc/proto-loader")
  const { readFileSync, writeFileSync } = require("node:fs")
  const [, directory] = process.argv
  const scripts = readFileSync(0, "utf8")
  const text = readFileSync("integration/interop/cri.proto", "utf8")
  const serviceOf = (version) => {
    writeFileSync(directory + "/cri.proto", text.replace("package runtime.v1;", "package runtime." + version + ";"))
    return loadPackageDefinition(loadSync(directory + "/cri.proto")).runtime[version].RuntimeService.service
  }
  const services = { v1: serviceOf("v1"), v1alpha2: serviceOf("v1alpha2") }
  const serve = ([name, { version = "v1", answers }]) => {
    const server = new Server({ "grpc.max_send_message_length": -1 })
    const Status = ({ request }, done) => {
      const answer = answers.length > 1 ? answers.shift() : answers[0]
      if (answer === "nothing") return
      if (!request.verbose) done({ code: 3, details: "not verbose" })
      else if (answer.error) done(answer.error)
      else done(null, answer)
    }
    server.addService(services[version], { Status })
    return new Promise((resolve, reject) => server.bindAsync("unix:" + directory + "/" + name,
      ServerCredentials.createInsecure(), (error) => error ? reject(error) : resolve()))
  }
  Promise.all(Object.entries(JSON.parse(scripts)).map(serve)).then(() => console.log("listening"))`

/** What is said on a socket: the version of CRI, and the answers, of which the last one is said again and again. */
export interface Script {
  readonly version?: "v1" | "v1alpha2"
  readonly answers: readonly Answer[]
}

/** Runtimes that answer Status, in a process of Node, each on the socket of its name in a directory. */
export async function startRuntimes(
  directory: string,
  scripts: Readonly<Record<string, Script>>,
): Promise<AsyncDisposable> {
  const command = ["node", "-e", program, directory]
  const stdin = new Blob([JSON.stringify(scripts)])
  const child = Bun.spawn(command, { cwd: join(import.meta.dir, "../.."), stdin, stdout: "pipe", stderr: "inherit" })
  await child.stdout.getReader().read()
  return {
    async [Symbol.asyncDispose]() {
      child.kill()
      await child.exited
    },
  }
}
