/** A page in Markdown as text: `import page from "./README.md" with { type: "text" }`. */
declare module "*.md" {
  const page: string
  export default page
}
