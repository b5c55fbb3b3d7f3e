import { messageOf } from "../../../pkg/types/mod.ts"
import { StoreError } from "../../store.ts"
import { WireFault } from "./wire.ts"

/**
 * How a request to one member failed.
 * - "not sent": etcd has not begun with it. Another member may do it.
 * - "no answer": it may have been done, or is done later. Another member may be asked only where nothing changes.
 * - "denied": etcd has refused it, and every other member would.
 */
export type FaultKind = "not sent" | "no answer" | "denied"

/** A request that has failed; the message is the reason, to come after the member's address. */
export class MemberFault extends Error {
  override readonly name = "MemberFault"
  readonly kind: FaultKind

  constructor(kind: FaultKind, reason: string, cause?: unknown) {
    super(reason, { cause })
    this.kind = kind
  }
}

/** Codes of `fetch` for requests that were not sent, and what they say. */
const notSent: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection was refused",
  ENOTFOUND: "its name is unknown",
  EAI_AGAIN: "its name cannot be asked for now",
  ERR_INVALID_URL: "it is no URL",
  FailedToOpenSocket: "a connection cannot be opened",
}

/** Codes of a certificate that was not accepted, OpenSSL's names of <openssl/x509_vfy.h>: the request is sent only after that. */
const badCertificate =
  /^(UNABLE_TO_|CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_)/

/** What any error of a request tells of it. `timeoutMs` is the time that it had. */
export function asFault(error: unknown, timeoutMs: number): MemberFault {
  if (error instanceof MemberFault) return error
  if (error instanceof StoreError) return new MemberFault("not sent", error.message, error) // a file of TLS, or the password's
  if (error instanceof WireFault)
    return new MemberFault("no answer", `the answer is not etcd's: ${error.message}`, error)
  const { name, code } = error as { name?: string; code?: string | number }
  if (name === "TimeoutError") return new MemberFault("no answer", `no answer within ${timeoutMs} ms`, error)
  if (code === "ECONNRESET") return new MemberFault("no answer", "the connection ended without an answer", error)
  const reason = notSent[String(code)]
  if (reason !== undefined) return new MemberFault("not sent", reason, error)
  if (badCertificate.test(String(code)))
    return new MemberFault("not sent", `its certificate is not accepted (${code})`, error)
  return new MemberFault("no answer", messageOf(error), error)
}

/**
 * Answers with a status of 400 to 499 that do not say that nothing was done: a call that was canceled or ran out of time (408, 499), and
 * one without space (429), which etcd may have noticed only after the change.
 */
const unclear = new Set([408, 429, 499])

/** What an answer with an error status tells of the request. `text` has etcd's words, where they are etcd's. */
export function faultOfAnswer(status: number, text: string | undefined): MemberFault {
  const reason = text === undefined ? `it answered with HTTP status ${status}` : text.replace(/^etcdserver: /, "")
  // Asked for with "hasleader": etcd looks for the leader before it does anything.
  if (reason === "no leader") return new MemberFault("not sent", "the cluster has no leader")
  const isDenied = status >= 400 && status < 500 && !unclear.has(status)
  return new MemberFault(isDenied ? "denied" : "no answer", reason)
}

/** Whether etcd wants another token: it does not know this one, wants one at all, or its users have changed since. */
export function wantsToken(fault: unknown): boolean {
  const reasons = ["invalid auth token", "user name is empty", "revision of auth store is old"]
  return fault instanceof MemberFault && fault.kind === "denied" && reasons.includes(fault.message)
}

/** Whether a question was about a revision whose history no longer exists. */
export function isCompacted(fault: unknown): boolean {
  return fault instanceof MemberFault && fault.message.includes("required revision has been compacted")
}
