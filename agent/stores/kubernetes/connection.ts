import { readFileSync } from "node:fs"
import { CniError, Code, messageOf } from "../../../pkg/types/mod.ts"
import { FileText, type TlsMaterial, type TlsSource } from "../../tls.ts"

/** A certificate, key or token: in the configuration itself, or in a file, which is read again when it has changed. */
export interface Secret {
  /** The path of the file; absent where the text is in the configuration. */
  readonly path?: string
  read(): Promise<string>
}

export function secretInFile(path: string): Secret {
  return new FileText(path)
}

export function secretText(text: string): Secret {
  return { read: async () => text }
}

/** How to reach an API server, and as whom. */
export interface Connection {
  /** "https://10.96.0.1:443" */
  readonly server: string
  readonly ca?: Secret
  readonly certificate?: Secret
  readonly key?: Secret
  readonly token?: Secret
}

/** Where the service account of a pod lies, by Kubernetes' convention. */
const accountDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"

/** The connection of a pod with its service account. Throws code 7 outside of a pod. `directory` is another one in tests. */
export function serviceAccount(
  environment: Readonly<Record<string, string | undefined>>,
  directory = accountDirectory,
): Connection {
  const host = environment.KUBERNETES_SERVICE_HOST
  const port = environment.KUBERNETES_SERVICE_PORT
  if (!host || !port) {
    const reason =
      'KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: outside of a pod the store needs "kubeconfig"'
    throw new CniError(Code.InvalidNetworkConfig, `Cannot use store "kubernetes": ${reason}`)
  }
  const connection: Connection = {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    ca: secretInFile(`${directory}/ca.crt`),
    token: secretInFile(`${directory}/token`),
  }
  requireReadable(connection)
  return connection
}

/** Throws code 7 for a file that cannot be read: better at the start than at the first request. */
export function requireReadable({ ca, certificate, key, token }: Connection): void {
  for (const path of [ca, certificate, key, token].flatMap((secret) => secret?.path ?? [])) {
    try {
      readFileSync(path)
    } catch (cause) {
      const reason = `"${path}" cannot be read: ${messageOf(cause)}`
      throw new CniError(Code.InvalidNetworkConfig, `Cannot use store "kubernetes": ${reason}`, { cause })
    }
  }
}

/** The certificates of a connection. */
export class ConnectionTls implements TlsSource {
  readonly #connection: Connection
  #last: TlsMaterial = {}

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async read(): Promise<TlsMaterial> {
    const { ca, certificate, key } = this.#connection
    const material: TlsMaterial = {
      ...(ca && { ca: await ca.read() }),
      ...(certificate && { cert: await certificate.read() }),
      ...(key && { key: await key.read() }),
    }
    const last = this.#last
    if (material.ca !== last.ca || material.cert !== last.cert || material.key !== last.key) this.#last = material
    return this.#last
  }
}
