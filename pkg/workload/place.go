package workload

// PlaceOf is where the text of a document has the key of a field: its line, counted from the one on which the content of the
// document begins, which is [Document.Line], and its column, from 1. ok is false where it has not.
func PlaceOf(text, path string) (line, column int, ok bool) {
	src := &source{}
	root := parseYAML(src, splitLines(text))
	if root == nil || len(root.Content) == 0 || !flatten(src, root) {
		return 0, 0, false
	}
	d := newDecoder(src, "")
	d.document(root.Content[0])
	key := d.keys[path]
	if key == nil {
		return 0, 0, false
	}
	return key.Line - root.Content[0].Line, key.Column, true
}
