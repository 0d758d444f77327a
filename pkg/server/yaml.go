package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"g8s.host/gpu-scheduler/pkg/workload"
)

// sourceName is the name of a request's YAML document in diagnostics.
const sourceName = "yamlContent"

// codeInvalidYAML is the code of invalid YAML. Requests that exceed a limit have another code.
const codeInvalidYAML = "InvalidYAML"

// smallText is a size that nearly all jobs stay below. Parsing such a text needs no slot.
const smallText = 4 << 10

// parseDocuments parses the documents of a request, or returns an error with every problem and its position. A long text waits for a slot.
func (s *Server) parseDocuments(ctx context.Context, content string) ([]document, []Detail, error) {
	leave, err := s.acquireReadSlot(ctx, content)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	return parseYAML(content)
}

// parseYAML is [Server.parseDocuments] without waiting for a slot.
func parseYAML(content string) ([]document, []Detail, error) {
	docs, diagnostics := workload.ParseWithoutAliases(sourceName, []byte(content))
	details := diagnosticDetails(diagnostics)
	if !diagnostics.HasErrors() {
		return docs, details, nil
	}
	first := diagnostics[slices.IndexFunc(diagnostics, func(d workload.Diagnostic) bool {
		return d.Severity == workload.SeverityError
	})]
	return nil, details, &refusal{
		status: http.StatusUnprocessableEntity, code: codeInvalidYAML, details: details,
		text: fmt.Sprintf("the YAML is not valid: line %d, column %d: %s", first.Line, first.Column, first.Message),
	}
}

// parseOne parses a request's only document, which must satisfy is.
func (s *Server) parseOne(ctx context.Context, content, what string, is func(document) bool) (document, error) {
	docs, _, err := s.parseDocuments(ctx, content)
	if err != nil {
		return document{}, err
	}
	return onlyDocument(docs, what, is)
}

// parseJob parses a request's only document, a job, and fills it in with [jobFiller.fillJob].
func (s *Server) parseJob(ctx context.Context, content string, live liveFunc) (doc document, notes []string, err error) {
	if doc, err = s.parseOne(ctx, content, "job", isJob); err != nil {
		return doc, nil, err
	}
	return s.newJobFiller(ctx, live).fillJob(ctx, doc)
}

// onlyDocument returns the document if there is exactly one and it satisfies is.
func onlyDocument(docs []document, what string, is func(document) bool) (document, error) {
	switch {
	case len(docs) != 1:
		return document{}, invalidErrorf("the YAML holds %d documents, want one %s: send several to %s/jobs/batch",
			len(docs), what, Root)
	case !is(docs[0]):
		return document{}, invalidErrorf("the YAML is of the kind %s, want a %s: pools go to %s/pools, quotas to %s/quotas, reservations to %s/reservations",
			docs[0].Kind, what, Root, Root, Root)
	}
	return docs[0], nil
}

// parseSome parses documents for each of which the cluster is queried.
func (s *Server) parseSome(ctx context.Context, content string, live liveFunc) ([]document, error) {
	docs, _, err := s.parseDocuments(ctx, content)
	if err == nil && len(docs) > maxDocuments {
		return nil, invalidErrorf("the YAML holds %d documents, at most %d are taken at once", len(docs), maxDocuments)
	}
	filling := s.newJobFiller(ctx, live)
	for i := 0; err == nil && i < len(docs); i++ {
		docs[i], _, err = filling.fillJob(ctx, docs[i]) // the answers show the filled-in values
	}
	return docs, err
}

// document is one document of a request.
type document = workload.Document

func isJob(doc document) bool { return doc.Job != nil }
