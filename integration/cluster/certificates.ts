import { mustRun } from "../lab/mod.ts"

/** A certificate and its key, as files. */
export interface Certificate {
  readonly certificate: string
  readonly key: string
}

const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]

/** Makes a certificate authority in a directory, like `openssl req -x509`. */
export async function makeAuthority(directory: string, name = "ca"): Promise<Certificate> {
  const made = filesOf(directory, name)
  const out = ["-keyout", made.key, "-out", made.certificate, "-subj", `/CN=${name}`]
  await mustRun(["openssl", "req", "-x509", ...key, ...out])
  return made
}

/** Makes a certificate of an authority for a server with these addresses, or for a client without. */
export async function makeCertificate(
  directory: string,
  name: string,
  authority: Certificate,
  addresses: readonly string[] = [],
  // Without a common name: etcd's gateway refuses clients that have one.
  subject = `/O=${name}`,
): Promise<Certificate> {
  const made = filesOf(directory, name)
  const out = ["-keyout", made.key, "-out", made.certificate, "-subj", subject]
  const signer = ["-CA", authority.certificate, "-CAkey", authority.key]
  // etcd's gateway is a client of its own server, with the server's certificate.
  const usages = addresses.length > 0 ? "serverAuth,clientAuth" : "clientAuth"
  const names =
    addresses.length > 0 ? ["-addext", `subjectAltName=${addresses.map((each) => `IP:${each}`).join()}`] : []
  const extensions = [
    "-addext",
    "basicConstraints=critical,CA:FALSE",
    "-addext",
    `extendedKeyUsage=${usages}`,
    ...names,
  ]
  await mustRun(["openssl", "req", "-x509", ...key, ...out, ...signer, ...extensions])
  return made
}

function filesOf(directory: string, name: string): Certificate {
  return { certificate: `${directory}/${name}.pem`, key: `${directory}/${name}.key` }
}
