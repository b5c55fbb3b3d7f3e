import { type HostNamespace, TemporaryDirectory, waitFor } from "../lab/mod.ts"

/**
 * Gives a table of the host to a process of the test, as firewalld owns its own (`flags owner`, nft(8)): every process
 * may list it, and the kernel refuses changes by others with EPERM. Ends with the scope.
 */
export class OwnedTable implements AsyncDisposable {
  readonly #owner: Bun.Subprocess<"pipe", "ignore", "inherit">

  private constructor(owner: Bun.Subprocess<"pipe", "ignore", "inherit">) {
    this.#owner = owner
  }

  /** Takes over a table with its content; `table` is its family and name, "ip cni_masquerade". */
  static async take(host: HostNamespace, table: string): Promise<OwnedTable> {
    const list = () => host.exec("nft", ["list", "table", ...table.split(" ")])
    const { stdout } = await list()
    await host.exec("nft", ["delete", "table", ...table.split(" ")])
    const owner = Bun.spawn(host.commandLine(["nft", "-i"]), { stdin: "pipe", stdout: "ignore", stderr: "inherit" })
    const owned = new OwnedTable(owner)
    try {
      // It reads what it is told line by line, and a table has more than one.
      await using directory = await TemporaryDirectory.create()
      await Bun.write(directory.join("table"), stdout.replace("{\n", "{\n\tflags owner\n"))
      owner.stdin.write(`include "${directory.join("table")}"\n`)
      owner.stdin.flush()
      await waitFor(async () => (await list()).stdout.includes("flags owner"), `table ${table} of another process`)
      return owned
    } catch (error) {
      await owned[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#owner.stdin.end()
    await this.#owner.exited
  }
}
