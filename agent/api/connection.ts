import { readFile, stat } from "node:fs/promises"
import { CniError, Code, messageOf } from "../../pkg/types/mod.ts"

/** A certificate, key or token: a constant text, or a file that is read again when it changes. */
export interface Secret {
  read(): Promise<string>
}

export interface Connection {
  /** The server's URL, such as "https://10.96.0.1:443". */
  readonly server: string
  readonly ca?: Secret
  readonly certificate?: Secret
  readonly key?: Secret
  readonly token?: Secret
}

/** A secret in a file that other programs replace when the secret expires. */
export class SecretFile implements Secret {
  readonly path: string
  #seen: { readonly mark: string; readonly text: string } | undefined

  constructor(path: string) {
    this.path = path
  }

  /** Returns the current content of the file. Throws an error that names the file. */
  async read(): Promise<string> {
    try {
      const { ino, size, mtimeNs } = await stat(this.path, { bigint: true })
      const mark = `${ino} ${size} ${mtimeNs}`
      if (this.#seen?.mark !== mark) this.#seen = { mark, text: await readFile(this.path, "utf8") }
      return this.#seen.text
    } catch (cause) {
      throw new Error(`Cannot read "${this.path}": ${messageOf(cause)}`, { cause })
    }
  }
}

/** The directory that contains the credentials of a pod's service account. */
const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

/** Returns the connection of the pod's service account in `directory`. Throws error code 7 outside of a pod. */
export function serviceAccount(env: Readonly<Record<string, string | undefined>>, directory = ACCOUNT): Connection {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env
  if (!host || !port) {
    throw new CniError(
      Code.InvalidNetworkConfig,
      "Cannot find the API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; outside a pod, give --kubeconfig",
    )
  }
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    ca: new SecretFile(`${directory}/ca.crt`),
    token: new SecretFile(`${directory}/token`),
  }
}
