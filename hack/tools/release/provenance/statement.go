package main

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// The formats: in-toto's statement, with SLSA's provenance predicate.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
)

// statement says how files, identified by digest, were built.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

// resource is a file, a commit or a module.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	InternalParameters   map[string]string `json:"internalParameters"`
	ResolvedDependencies []resource        `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// facts are the inputs of a statement. They contain no time: the same build gives the same statement.
type facts struct {
	// Source is the location of the commit.
	Source, Commit string
	// BuildType is the page that describes how to repeat the build, and Builder the machine that ran it.
	BuildType, Builder string
	// Parameters are the variables given to make, and LDFlags the resulting linker flags.
	Parameters map[string]string
	LDFlags    string
	// Sums are the hexadecimal SHA256 of the files.
	Sums map[string]string
	// Parts are the components of the programs, including the toolchain.
	Parts []cdx.Component
}

// newStatement returns the statement of a build.
func newStatement(f *facts) (*statement, error) {
	s := &statement{Type: statementType, PredicateType: predicateType}
	for _, name := range slices.Sorted(maps.Keys(f.Sums)) {
		s.Subject = append(s.Subject, resource{Name: name, Digest: map[string]string{"sha256": f.Sums[name]}})
	}
	dependencies := []resource{{URI: "git+" + f.Source + "@" + f.Commit, Digest: map[string]string{"gitCommit": f.Commit}}}
	for i := range f.Parts {
		part, err := partDependency(&f.Parts[i])
		if err != nil {
			return nil, err
		}
		dependencies = append(dependencies, part)
	}
	s.Predicate = predicate{
		BuildDefinition: buildDefinition{
			BuildType: f.BuildType, ExternalParameters: f.Parameters, InternalParameters: map[string]string{"ldflags": f.LDFlags},
			ResolvedDependencies: dependencies,
		},
		RunDetails: runDetails{Builder: builder{ID: f.Builder}},
	}
	return s, nil
}

// partDependency returns a component with its checksum from go.sum, which in-toto writes in hexadecimal. The toolchain has none.
func partDependency(part *cdx.Component) (resource, error) {
	out := resource{URI: part.PackageURL}
	if part.Properties == nil {
		return out, nil
	}
	for _, property := range *part.Properties {
		encoded, isSum := strings.CutPrefix(property.Value, "h1:")
		if property.Name != "go:sum" || !isSum {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return out, fmt.Errorf("reading the sum of %s: %w", part.PackageURL, err)
		}
		out.Digest = map[string]string{"dirHash": hex.EncodeToString(sum)}
	}
	return out, nil
}

// verifyFiles verifies a statement against the existing files by their SHA256: it must name exactly these files.
func (s *statement) verifyFiles(files map[string]string) error {
	if s.Type != statementType || s.PredicateType != predicateType {
		return fmt.Errorf("it is a %q of %q, want a %q of %q", s.Type, s.PredicateType, statementType, predicateType)
	}
	var wrong []error
	named := map[string]bool{}
	for _, subject := range s.Subject {
		named[subject.Name] = true
		switch sum, there := files[subject.Name]; {
		case !there:
			wrong = append(wrong, fmt.Errorf("%s is not there", subject.Name))
		case sum != subject.Digest["sha256"]:
			wrong = append(wrong, fmt.Errorf("%s has the SHA256 %s, and the statement is of one with %s", subject.Name, sum, subject.Digest["sha256"]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !named[name] {
			wrong = append(wrong, fmt.Errorf("the statement says nothing of %s", name))
		}
	}
	return errors.Join(wrong...)
}
