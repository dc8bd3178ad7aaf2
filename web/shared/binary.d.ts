declare module "*.bin?inline" {
  /** A `data:` URL. */
  const url: string;
  export default url;
}
