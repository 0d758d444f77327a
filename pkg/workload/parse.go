package workload

import (
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// Limits of files.
const (
	// MaxFileSize is the maximum size of a file in bytes.
	MaxFileSize = 1 << 20
	// MaxDocumentSize is the maximum size of a document in bytes. Its text is stored in an annotation, its description in another, and Kubernetes
	// allows 256 KiB for all annotations of an object.
	MaxDocumentSize = 120 << 10
	// MaxDocuments is the maximum number of documents in a file.
	MaxDocuments = 1000
)

// Version is the only version of the YAML; a document may leave it out.
const Version = "v0.1"

// versionAlias is the name of [Version] in many published examples.
const versionAlias = "v1"

// Parse reads the documents of a file; name is its name in diagnostics. It returns the documents without errors. Callers that create anything must
// check [Diagnostics.HasErrors] first, so that a file takes effect as a whole or not at all.
func Parse(name string, data []byte) ([]Document, Diagnostics) {
	return parseSource(&source{file: name}, data)
}

// ParseWithoutAliases is [Parse] for text from the network, in which an alias is an error: few people write aliases by hand, but attackers do.
func ParseWithoutAliases(name string, data []byte) ([]Document, Diagnostics) {
	return parseSource(&source{file: name, noAliases: true}, data)
}

// ParseFilled is [Parse] for a document whose preset is filled in: no other source can provide the fields that its fields need.
func ParseFilled(data []byte) ([]Document, Diagnostics) {
	return parseSource(&source{filled: true}, data)
}

func parseSource(src *source, data []byte) ([]Document, Diagnostics) {
	name := src.file
	if len(data) > MaxFileSize {
		return nil, newFileError(name, phrase.Textf("the file is too large: it has %d bytes, and at most %d (1 MiB) are read",
			len(data), MaxFileSize))
	}
	src.lines = splitLines(strings.TrimPrefix(string(data), "\ufeff"))
	if line, column := invalidUTF8(src.lines); line > 0 {
		src.addDiagnostic(SeverityError, line, column, phrase.Textf("the file is not UTF-8 text: save it with the encoding UTF-8"))
		return nil, src.diagnostics
	}
	chunks := splitDocuments(src.lines)
	switch {
	case len(data) == 0:
		return nil, newFileError(name, phrase.Textf("the file is empty"))
	case len(chunks) == 0:
		return nil, newFileError(name, phrase.Textf("the file holds only comments and no document"))
	case len(chunks) > MaxDocuments:
		return nil, newFileError(name, phrase.Textf("the file holds %d documents, and at most %d are read", len(chunks), MaxDocuments))
	}
	var docs []Document
	for _, c := range chunks {
		if doc, ok := parseDocument(src, c); ok {
			docs = append(docs, doc)
		}
	}
	reportDuplicates(src, docs)
	return docs, src.diagnostics.sortAndLimit()
}

// newFileError returns an error about the whole file, at its beginning.
func newFileError(name string, says phrase.Text) Diagnostics {
	return Diagnostics{{File: name, Line: 1, Column: 1, Severity: SeverityError, Message: says.String(), Text: says}}
}

// parseDocument parses one document. It returns false after reporting at least one error.
func parseDocument(src *source, c chunk) (Document, bool) {
	src.first = c.first
	before := len(src.diagnostics)
	lines := src.lines[c.first:c.end]
	text := strings.Join(lines, "")
	if len(text) > MaxDocumentSize {
		src.addDiagnostic(SeverityError, 1, 1, phrase.Textf("the document is too large: it has %d bytes, and at most %d are read",
			len(text), MaxDocumentSize))
		return Document{}, false
	}
	root := parseYAML(src, lines)
	if root == nil || len(root.Content) == 0 {
		return Document{}, false
	}
	if !unfoldAliases(src, root) {
		return Document{}, false
	}
	doc, ok := decodeDocument(src, root.Content[0])
	if !ok || src.diagnostics[before:].HasErrors() {
		return Document{}, false
	}
	doc.Source = strings.Trim(text, "\r\n") + "\n"
	doc.Line = c.first + root.Content[0].Line
	return doc, true
}

// decodeDocument determines the kind and decodes the document by its table.
func decodeDocument(src *source, root *yaml.Node) (Document, bool) {
	return newDecoder(src, "").decodeRoot(root)
}

func (d *decoder) decodeRoot(root *yaml.Node) (Document, bool) {
	if root.Kind != yaml.MappingNode {
		d.errorf(root, "a document must begin with a kind, such as \"kind: training\", not with %s", nodeWord(root))
		return Document{}, false
	}
	kind, ok := d.findKind(root)
	if !ok {
		return Document{}, false
	}
	return d.decodeAs(kind, root)
}

// decodeAs decodes a document by the table of a kind.
func (d *decoder) decodeAs(kind Kind, root *yaml.Node) (Document, bool) {
	d.kind = kind
	d.keys[""] = root
	switch kind {
	case KindPool:
		pool := &Pool{}
		d.decodeSection(root, "", poolFields(pool))
		checkPool(d, pool)
		d.checkRelations()
		return Document{Kind: kind, Name: pool.Name, Pool: pool}, true
	case KindQuota:
		quota, single := &Quota{}, NamespaceQuota{}
		d.decodeSection(root, "", quotaFields(quota, &single))
		if d.hasField(singleNamespace) {
			quota.Namespaces = append(quota.Namespaces, single)
		}
		checkQuota(d, quota)
		d.checkRelations()
		quota.fillDerived()
		return Document{Kind: kind, Name: quota.Name, Quota: quota}, true
	case KindReservation:
		reservation := &Reservation{}
		d.decodeSection(root, "", reservationFields(reservation))
		checkReservation(d, reservation)
		d.checkRelations()
		return Document{Kind: kind, Name: reservation.Name, Reservation: reservation}, true
	}
	job := newJob(kind)
	d.decodeSection(root, "", jobFields(job))
	if job.Name == "" && job.GenerateName != "" {
		job.Name = job.GenerateName + PlaceholderSuffix
	}
	checkJob(d, job)
	d.checkRelations()
	job.fillDerived()
	return Document{Kind: kind, Name: job.Name, Namespace: job.Namespace, Job: job}, true
}

// findKind reads the kind, which selects the table.
func (d *decoder) findKind(root *yaml.Node) (Kind, bool) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "kind" {
			return d.parseKind(root, root.Content[i+1])
		}
	}
	d.errorf(root, "kind is missing: write one of %s", joinAlternatives(Kinds))
	d.intended["kind"] = true
	return d.likeliestJobKind(root)
}

// likeliestJobKind returns the kind of job by which a document whose kind is wrong has the fewest other mistakes, so that these are reported with it.
// It returns false for a document that describes no job.
func (d *decoder) likeliestJobKind(root *yaml.Node) (Kind, bool) {
	if !hasKey(root, "job") {
		return "", false
	}
	likeliest, fewest := Kind(""), math.MaxInt
	for _, kind := range Kinds {
		if !kind.IsJob() || hasKey(root, "service") && !slices.Contains(serviceKinds, kind) {
			continue
		}
		attempt := *d.source
		attempt.diagnostics = nil
		newDecoder(&attempt, "").decodeAs(kind, root)
		if mistakes := len(attempt.diagnostics); mistakes < fewest {
			likeliest, fewest = kind, mistakes
		}
	}
	return likeliest, true
}

func (d *decoder) parseKind(root, node *yaml.Node) (Kind, bool) {
	kind, known := lookupKind(node.Value)
	switch {
	case node.Kind != yaml.ScalarNode || isNull(node):
		d.errorf(node, "kind must be %s, not %s", joinAlternatives(Kinds), nodeWord(node))
	case known:
		return kind, true
	case hasKey(root, "apiVersion"):
		d.errorf(node, "kind %q with an apiVersion is a Kubernetes manifest: apply it with kubectl", truncateText(node.Value))
	default:
		candidates := []string{aliasOfPool}
		for _, k := range Kinds {
			candidates = append(candidates, string(k))
		}
		hint := spelling.DidYouMean(node.Value, candidates)
		if len(hint) == 0 {
			hint = phrase.Textf(": write one of %s", joinAlternatives(Kinds))
		}
		d.errorf(node, "unknown kind %q%s", truncateText(node.Value), hint)
		if kind, found := lookupKind(spelling.Nearest(node.Value, candidates)); found && len(root.Content) > 2 {
			return kind, true // all other mistakes are reported with it
		}
		return d.likeliestJobKind(root)
	}
	return "", false
}

// lookupKind returns the kind that a word names.
func lookupKind(word string) (Kind, bool) {
	if word == aliasOfPool {
		return KindPool, true
	}
	for _, k := range Kinds {
		if string(k) == word {
			return k, true
		}
	}
	return "", false
}

func hasKey(mapping *yaml.Node, key string) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return true
		}
	}
	return false
}

// reportDuplicates reports documents with the same name in a file. Jobs of all kinds share one namespace of names, because their Services do.
func reportDuplicates(src *source, docs []Document) {
	type identity struct{ space, namespace, name string }
	first := map[identity]int{}
	src.first = 0
	for _, doc := range docs {
		if doc.GeneratesName() {
			continue
		}
		id := identity{"job", doc.Namespace, doc.Name}
		if !doc.Kind.IsJob() {
			id.space = string(doc.Kind)
		}
		if line, ok := first[id]; ok {
			src.addDiagnostic(SeverityError, doc.Line, 1, phrase.Textf("the name %q is taken already, on line %d", doc.Name, line))
			continue
		}
		first[id] = doc.Line
	}
}
