import { createPrivateKey, X509Certificate } from "node:crypto"
import { readFile, stat } from "node:fs/promises"
import { messageOf } from "../pkg/types/mod.ts"
import type { TlsConfig } from "./config.ts"
import { StoreError } from "./store.ts"

/** What a TLS connection is made with, in PEM. */
export interface TlsMaterial {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** Where the material of new connections comes from. The same object as long as nothing has changed. */
export interface TlsSource {
  read(): Promise<TlsMaterial>
}

/** A text in a file, such as a token: read again when the file has changed, or another has taken its place. */
export class FileText {
  readonly path: string
  #seen: { readonly mark: string; readonly text: string } | undefined

  constructor(path: string) {
    this.path = path
  }

  /** The text. Throws `StoreError` "refused" where the file cannot be read. */
  async read(): Promise<string> {
    try {
      const { ino, size, mtimeNs } = await stat(this.path, { bigint: true })
      const mark = `${ino} ${size} ${mtimeNs}`
      if (this.#seen?.mark !== mark) this.#seen = { mark, text: await readFile(this.path, "utf8") }
      return this.#seen.text
    } catch (cause) {
      throw new StoreError(`Cannot read "${this.path}": ${messageOf(cause)}`, "refused", cause)
    }
  }
}

/**
 * The TLS files of a configuration. Certificate and key are replaced one after the other: until they fit together again, the
 * pair before them stays in use.
 */
export class TlsFiles implements TlsSource {
  readonly #ca: FileText | undefined
  readonly #cert: FileText | undefined
  readonly #key: FileText | undefined
  #last: TlsMaterial | undefined

  constructor({ ca, certificate, key }: TlsConfig = {}) {
    const file = (path: string | undefined) => (path === undefined ? undefined : new FileText(path))
    this.#ca = file(ca)
    this.#cert = file(certificate)
    this.#key = file(key)
  }

  /** The newest material. Throws `StoreError` "refused" that names the file. */
  async read(): Promise<TlsMaterial> {
    const [ca, cert, key] = await Promise.all([this.#ca?.read(), this.#cert?.read(), this.#key?.read()])
    const last = this.#last
    if (last && last.ca === ca && last.cert === cert && last.key === key) return last
    const fault = faultOfPair(cert, key)
    if (fault === undefined) this.#last = present(ca, cert, key)
    else if (last) this.#last = last.ca === ca ? last : present(ca, last.cert, last.key)
    else {
      const files = `"${this.#cert?.path ?? ""}" and "${this.#key?.path ?? ""}"`
      throw new StoreError(`Cannot use the certificate and key ${files}: ${fault}`, "refused")
    }
    return this.#last
  }
}

function present(ca: string | undefined, cert: string | undefined, key: string | undefined): TlsMaterial {
  return { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) }
}

/** Why a certificate and a key cannot be used together; `undefined` where they can, and where neither is given. */
function faultOfPair(cert: string | undefined, key: string | undefined): string | undefined {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined || key === undefined) return "one of the two is not configured"
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))
      ? undefined
      : "the key is of another certificate"
  } catch (error) {
    return messageOf(error)
  }
}

/** `fetch` with the newest TLS material. Connections are kept for later requests; new material means new connections. No proxy is used. */
export class Connections implements Disposable {
  readonly #source: TlsSource
  #material: TlsMaterial | undefined
  #session: Bun.FetchSession | undefined

  constructor(source: TlsSource) {
    this.#source = source
  }

  /** Sends a request. Throws `StoreError` "refused" where a TLS file cannot be used, else what `fetch` throws. */
  async fetch(url: string, init: RequestInit): Promise<Response> {
    const material = await this.#source.read()
    if (this.#session === undefined || material !== this.#material) {
      this.#session?.close()
      this.#session = new Bun.FetchSession({ tls: { ...material }, proxy: false })
      this.#material = material
    }
    return this.#session.fetch(url, { ...init, redirect: "manual" })
  }

  [Symbol.dispose](): void {
    this.#session?.close()
    this.#session = undefined
  }
}
