package workload

// FieldPosition returns the position of a field's key in the text of a document: its line, relative to the first line of the document's content,
// which is [Document.Line], and its column from 1. ok is false if the document does not have the field.
func FieldPosition(text, path string) (line, column int, ok bool) {
	src := &source{}
	root := parseYAML(src, splitLines(text))
	if root == nil || len(root.Content) == 0 || !unfoldAliases(src, root) {
		return 0, 0, false
	}
	d := newDecoder(src, "")
	d.decodeRoot(root.Content[0])
	key := d.keys[path]
	if key == nil {
		return 0, 0, false
	}
	return key.Line - root.Content[0].Line, key.Column, true
}
