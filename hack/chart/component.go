package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// component is a part of the chart that is enabled or disabled as a whole.
type component struct {
	// name is the name of its template, and folder that of its kustomization.
	name, folder string
	// enabled is the condition under which it is included.
	enabled string
	// only names a folder: the component includes only objects of that folder that are also in its own kustomization. Objects of the folders in
	// without are excluded. The scheduler's kustomization includes those folders, and labels their objects.
	only    string
	without []string
	// traced says that its program sends spans.
	traced bool
}

var components = []component{
	{name: "crds", folder: "scheduler", only: "crds", enabled: ".Values.crds.install"},
	{name: "policies", folder: "scheduler", only: "policy", enabled: ".Values.policies.enabled"},
	{name: "copies", folder: "policy/copies", enabled: `and .Values.policies.enabled (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")`},
	{name: "scheduler", folder: "scheduler", without: []string{"crds", "policy"}, enabled: ".Values.scheduler.enabled", traced: true},
	{name: "controller", folder: "controller", enabled: ".Values.controller.enabled", traced: true},
	{name: "agent", folder: "agent", enabled: ".Values.agent.enabled"},
	{name: "server", folder: "server", enabled: ".Values.server.enabled", traced: true},
	{name: "ledger", folder: "ledger", enabled: ".Values.ledger.enabled"},
	{name: "spot", folder: "spot", enabled: ".Values.spot.enabled"},
	{name: "monitoring", folder: "monitoring", enabled: ".Values.monitoring.enabled"},
}

// renderTemplates returns the template of each component by name. build returns a kustomization's objects as YAML.
func renderTemplates(build func(folder string) ([]byte, error)) (map[string]string, error) {
	built := map[string][]*yaml.Node{}
	objects := func(folder string) ([]*yaml.Node, error) {
		if _, done := built[folder]; !done {
			data, err := build(folder)
			if err != nil {
				return nil, err
			}
			if built[folder], err = splitDocuments(data); err != nil {
				return nil, fmt.Errorf("reading the objects of %s: %w", folder, err)
			}
		}
		return built[folder], nil
	}
	templates := map[string]string{}
	for _, c := range components {
		own, err := c.selectObjects(objects)
		if err != nil {
			return nil, err
		}
		if templates[c.name], err = c.templateText(own); err != nil {
			return nil, fmt.Errorf("writing the template of %s: %w", c.name, err)
		}
	}
	return templates, nil
}

// selectObjects returns the objects of the component, in the order of its kustomization.
func (c component) selectObjects(of func(folder string) ([]*yaml.Node, error)) ([]*yaml.Node, error) {
	all, err := of(c.folder)
	if err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for _, object := range all {
		keep[objectIdentity(object)] = c.only == ""
	}
	for _, folder := range append([]string{c.only}, c.without...) {
		if folder == "" {
			continue
		}
		others, err := of(folder)
		if err != nil {
			return nil, err
		}
		for _, object := range others {
			keep[objectIdentity(object)] = folder == c.only
		}
	}
	var own []*yaml.Node
	for _, object := range all {
		if keep[objectIdentity(object)] {
			own = append(own, object)
		}
	}
	return own, nil
}

// header tells readers not to edit the file.
const header = `{{- /* Written by "make generate" from manifests/%s: edit that, or hack/chart for what may be set. */ -}}
{{- if %s }}
`

// templateText returns the component's template.
func (c component) templateText(objects []*yaml.Node) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, header, c.folder, c.enabled)
	for _, object := range objects {
		text, err := c.objectText(object)
		if err != nil {
			return "", fmt.Errorf("%s: %w", objectIdentity(object), err)
		}
		out.WriteString(text)
	}
	out.WriteString("{{- end }}\n")
	return out.String(), nil
}

// objectText returns one object's text, with placeholders for values.
func (c component) objectText(object *yaml.Node) (string, error) {
	e := &edits{component: c, object: object}
	e.editAll()
	var buffer bytes.Buffer
	encoder := yaml.NewEncoder(&buffer)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(object), encoder.Close()); err != nil {
		return "", err
	}
	text, err := e.fillPlaces(buffer.String())
	if err != nil {
		return "", err
	}
	if e.condition != "" {
		return fmt.Sprintf("{{- if %s }}\n---\n%s{{- end }}\n", e.condition, text), nil
	}
	return "---\n" + text, nil
}

// splitDocuments parses the documents of a stream.
func splitDocuments(stream []byte) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(stream))
	var objects []*yaml.Node
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		}
		objects = append(objects, document.Content[0])
	}
}

// objectIdentity identifies an object within a folder. The namespace is not part of it, because it depends on the including kustomization: kustomize
// treats unknown kinds, such as ValidatingAdmissionPolicy, as namespaced.
func objectIdentity(object *yaml.Node) string {
	return textAt(object, "kind") + " " + textAt(object, "metadata", "name")
}
