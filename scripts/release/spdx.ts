/** Converts an archive's bill of materials from CycloneDX (`sbom.ts`) to SPDX 2.3, for tools that read only SPDX. */

/** The fields of a CycloneDX bill that are used. */
interface Bill {
  readonly serialNumber: string
  readonly metadata: {
    readonly timestamp: string
    readonly component: Component
    readonly tools: { readonly components: Component[] }
  }
  readonly components: readonly Component[]
}

interface Component {
  readonly "bom-ref": string
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[]
  readonly licenses?: readonly { readonly license?: { readonly id?: string }; readonly expression?: string }[]
}

/** Returns the SPDX document as JSON text, always the same text for the same bill. */
export function spdxOf(cyclonedx: string, archive: string): string {
  const { serialNumber, metadata, components }: Bill = JSON.parse(cyclonedx)
  const product = metadata.component
  const tools = metadata.tools.components
  const relate = (from: string, relationshipType: string, to: string) => {
    return { spdxElementId: from, relationshipType, relatedSpdxElement: to }
  }
  const document = {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: documentId,
    name: archive,
    documentNamespace: `https://spdx.org/spdxdocs/${archive}-${serialNumber.replace("urn:uuid:", "")}`,
    creationInfo: {
      created: metadata.timestamp.replace(/\.\d+Z$/, "Z"),
      creators: [`Tool: ${product.name}-${product.version}`],
    },
    packages: [{ ...packageOf(product), packageFileName: archive }, ...[...components, ...tools].map(packageOf)],
    relationships: [
      relate(documentId, "DESCRIBES", idOf(product)),
      ...components.map((one) => relate(idOf(product), "CONTAINS", idOf(one))),
      ...tools.map((one) => relate(idOf(one), "BUILD_TOOL_OF", idOf(product))),
    ],
  }
  return `${JSON.stringify(document, undefined, 2)}\n`
}

const documentId = "SPDXRef-DOCUMENT"
const idOf = (component: Component) => `SPDXRef-${component["bom-ref"].replace(/[^A-Za-z0-9.]+/g, "-")}`

function packageOf(component: Component) {
  const licences = component.licenses?.flatMap(({ license, expression }) => license?.id ?? expression ?? []) ?? []
  return {
    SPDXID: idOf(component),
    name: component.name,
    versionInfo: component.version,
    downloadLocation: "NOASSERTION",
    filesAnalyzed: false,
    licenseConcluded: "NOASSERTION",
    licenseDeclared: licences.join(" AND ") || "NOASSERTION",
    copyrightText: "NOASSERTION",
    checksums: (component.hashes ?? []).map(({ alg, content }) => {
      return { algorithm: alg.replace("-", ""), checksumValue: content }
    }),
    externalRefs: component.purl
      ? [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: component.purl }]
      : [],
  }
}
