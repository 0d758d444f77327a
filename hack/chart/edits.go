package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// edits puts template expressions for values into one object. A place is a marker while the object is YAML, and becomes an expression in its text.
type edits struct {
	component component
	object    *yaml.Node
	// condition is an additional condition for the object, besides its component's; "" is none.
	condition string
	places    []place
}

// place is the position of an expression: it replaces a value, or a whole line that contains a block.
type place struct {
	expression string
	block      bool
}

// serverNamespace is the namespace of manifests/server.
const serverNamespace = "gpuctl-server"

// isKept reports whether an uninstall leaves the object: objects of users belong to these kinds, or an administrator wrote it. Without gpuctl-policy
// the policies refuse every pod, and the more so the later they are removed; g8s-spot contains the Secrets of clouds, without which machines cannot
// be terminated.
func (e *edits) isKept() bool {
	switch kind, name := textAt(e.object, "kind"), textAt(e.object, "metadata", "name"); kind {
	case "CustomResourceDefinition":
		return true
	case "ConfigMap":
		return name == "gpuctl-policy" || name == "gpuctl-presets"
	case "Namespace":
		return name == "g8s-spot"
	}
	return false
}

func (e *edits) editAll() {
	if e.isKept() {
		metadata := mappingField(e.object, "metadata")
		if mappingField(metadata, "annotations") == nil {
			setField(metadata, "annotations", &yaml.Node{Kind: yaml.MappingNode})
		}
		setField(mappingField(metadata, "annotations"), "helm.sh/resource-policy", scalarNode("keep"))
	}
	switch kind := textAt(e.object, "kind"); kind {
	case "Deployment", "StatefulSet", "DaemonSet":
		e.editWorkload(kind)
	case "ConfigMap":
		e.editConfig()
	case "Namespace":
		if e.component.name == "server" {
			e.condition = ".Values.server.createNamespace"
		}
	}
	switch e.component.name {
	case "server":
		e.setNamespace(e.object)
	case "monitoring":
		e.editMonitoring()
		e.setNamespace(e.object)
	}
}

// editMonitoring includes the monitoring of a component only if the component is enabled, and uses the configured names.
func (e *edits) editMonitoring() {
	for name, component := range map[string]string{
		"gpu-scheduler": "scheduler", "gpu-controller": "controller", "gpu-agent": "agent", "gpuctl-server": "server", "gpu-ledger": "ledger",
	} {
		own := textAt(e.object, "metadata", "name")
		if (own == name || own == name+"-metrics") && textAt(e.object, "kind") != "PrometheusRule" { // the PrometheusRule covers all components
			e.condition = ".Values." + component + ".enabled"
		}
	}
	e.replaceValues(e.object, map[string]string{
		"gpuctl-server-tls":               ".Values.server.tls.secretName",
		"gpu-ledger-tls":                  ".Values.ledger.tls.secretName",
		"gpuctl-server.gpuctl-server.svc": `printf "gpuctl-server.%s.svc" .Values.server.namespace`,
	})
}

// replaceValues puts placeholders where these texts are a whole value.
func (e *edits) replaceValues(node *yaml.Node, texts map[string]string) {
	for i, child := range node.Content {
		if expression, found := texts[child.Value]; found && child.Kind == yaml.ScalarNode {
			node.Content[i] = e.valuePlace(expression)
			continue
		}
		e.replaceValues(child, texts)
	}
}

// editWorkload makes the placement, the number and the image of pods configurable.
func (e *edits) editWorkload(kind string) {
	values := ".Values." + e.component.name
	spec := mappingField(e.object, "spec")
	if kind == "Deployment" {
		setField(spec, "replicas", e.valuePlace(values+".replicas"))
	}
	if kind == "StatefulSet" {
		claim := mappingField(spec, "volumeClaimTemplates").Content[0]
		requests := mappingField(mappingField(mappingField(claim, "spec"), "resources"), "requests")
		setField(requests, "storage", e.valuePlace(values+".storage.size"))
		e.setOptionalField(mappingField(claim, "spec"), "storageClassName", values+".storage.className")
	}
	pod := mappingField(mappingField(spec, "template"), "spec")
	for _, name := range []string{"nodeSelector", "tolerations"} {
		e.setOptionalField(pod, name, values+"."+name)
	}
	e.setOptionalField(pod, "imagePullSecrets", ".Values.image.pullSecrets")
	container := mappingField(pod, "containers").Content[0]
	name := textAt(container, "name")
	setField(container, "image", e.valuePlace(fmt.Sprintf(`include "g8s.image" (list $ %q %s.image)`, name, values)))
	e.setOptionalField(container, "imagePullPolicy", ".Values.image.pullPolicy")
	e.setOptionalField(container, "resources", values+".resources")
	if e.component.traced {
		e.addTracing(pod, container)
	}
	e.appendExtra(container, "args", values+".extraArgs")
	if e.component.name == "agent" {
		e.appendExtra(pod, "volumes", values+".extraVolumes")
		e.appendExtra(container, "volumeMounts", values+".extraVolumeMounts")
	}
	for _, volume := range sequenceItems(mappingField(pod, "volumes")) {
		if secret := mappingField(volume, "secret"); secret != nil {
			setField(secret, "secretName", e.valuePlace(values+".tls.secretName"))
		}
		e.configVolume(volume)
	}
}

// appendExtra appends a user's list to one of the manifest.
func (e *edits) appendExtra(mapping *yaml.Node, list, value string) {
	found := mappingField(mapping, list)
	found.Content = append(found.Content, e.blockPlace("{{- with "+value+" }}\n{{- toYaml . | nindent INDENT }}\n{{- end }}"))
}

// addTracing mounts the file of templates/tracing.yaml, if there is one.
func (e *edits) addTracing(pod, container *yaml.Node) {
	e.appendWhenTraced(container, "args", "- --tracing-config-file=/etc/g8s-tracing/tracing.yaml")
	e.appendWhenTraced(container, "volumeMounts", "- mountPath: /etc/g8s-tracing\n  name: tracing\n  readOnly: true")
	e.appendWhenTraced(pod, "volumes", "- configMap:\n    name: {{ include \"g8s.tracingName\" $ }}\n  name: tracing")
}

// appendWhenTraced appends lines to a list if spans are sent. The list may be missing.
func (e *edits) appendWhenTraced(mapping *yaml.Node, list, lines string) {
	const condition = "{{- if (.Values.tracing).endpoint }}\n%s\n{{- end }}"
	if found := mappingField(mapping, list); found != nil {
		found.Content = append(found.Content, e.blockPlace(fmt.Sprintf(condition, lines)))
		return
	}
	marker := e.blockPlace(fmt.Sprintf(condition, list+":\n"+lines))
	mapping.Content = append(mapping.Content, marker, scalarNode("x")) // a key needs a value; the whole line is replaced
}

// configName is the name of the scheduler's configuration: kustomize's, or one that changes with the user's content, so that the pods are replaced.
func configName(name string) string {
	return fmt.Sprintf(`include "g8s.configName" (list %q .Values.scheduler.config)`, name)
}

const (
	configPrefix = "gpu-scheduler-config-" // followed by a hash
	policyName   = "gpu-scheduler-policy"
)

func (e *edits) configVolume(volume *yaml.Node) {
	config := mappingField(volume, "configMap")
	if name := textAt(config, "name"); strings.HasPrefix(name, configPrefix) {
		setField(config, "name", e.valuePlace(configName(name)))
	}
}

// editConfig uses the user's own files in place of those of manifests/scheduler.
func (e *edits) editConfig() {
	metadata, data := mappingField(e.object, "metadata"), mappingField(e.object, "data")
	file := `default (.Files.Get "files/%s") .Values.scheduler.%s | toJson`
	switch name := textAt(metadata, "name"); {
	case strings.HasPrefix(name, configPrefix):
		setField(metadata, "name", e.valuePlace(configName(name)))
		setField(data, configFiles[0], e.valuePlace(fmt.Sprintf(file, configFiles[0], "config")))
	case name == policyName:
		setField(data, configFiles[1], e.valuePlace(fmt.Sprintf(file, configFiles[1], "scorePolicy")))
	}
}

// setNamespace puts the server into the configured namespace.
func (e *edits) setNamespace(node *yaml.Node) {
	if textAt(e.object, "kind") == "Namespace" {
		setField(mappingField(e.object, "metadata"), "name", e.valuePlace(".Values.server.namespace"))
		return
	}
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == "namespace" && node.Content[i+1].Value == serverNamespace {
			node.Content[i+1] = e.valuePlace(".Values.server.namespace")
		}
	}
	for _, child := range node.Content {
		e.setNamespace(child)
	}
}

// setOptionalField sets a field to a user's value; the field is absent if the value is empty.
func (e *edits) setOptionalField(mapping *yaml.Node, name, value string) {
	removeField(mapping, name)
	marker := e.blockPlace(fmt.Sprintf("{{- with %s }}\n%s: {{- toYaml . | nindent NESTED }}\n{{- end }}", value, name))
	mapping.Content = append(mapping.Content, marker, scalarNode("x"))
}

// valuePlace is a placeholder for one value.
func (e *edits) valuePlace(expression string) *yaml.Node {
	return e.addPlace(place{expression: "{{ " + expression + " }}"})
}

// blockPlace is a placeholder for lines. INDENT in them is the column where they begin, NESTED the next level.
func (e *edits) blockPlace(lines string) *yaml.Node {
	return e.addPlace(place{expression: lines, block: true})
}

func (e *edits) addPlace(p place) *yaml.Node {
	e.places = append(e.places, p)
	return scalarNode(fmt.Sprintf("__place_%d__", len(e.places)-1))
}

var marker = regexp.MustCompile(`__place_(\d+)__`)

// fillPlaces replaces the markers by their expressions, and fails if a marker is missing. Text that already looks like an expression is escaped.
func (e *edits) fillPlaces(encoded string) (string, error) {
	var out []string
	filled := 0
	for line := range strings.SplitSeq(strings.ReplaceAll(encoded, "{{", `{{ "{{" }}`), "\n") {
		found := marker.FindStringSubmatch(line)
		if found == nil {
			out = append(out, line)
			continue
		}
		i, err := strconv.Atoi(found[1])
		if err != nil || i >= len(e.places) {
			return "", fmt.Errorf("%s is no place", found[0])
		}
		filled++
		if p := e.places[i]; p.block {
			out = append(out, indentBlock(p.expression, line)...)
		} else {
			out = append(out, strings.Replace(line, found[0], p.expression, 1))
		}
	}
	if filled != len(e.places) {
		return "", fmt.Errorf("%d of %d places are in the text", filled, len(e.places))
	}
	return strings.Join(out, "\n"), nil
}

// indentBlock indents a block like the line of its marker.
func indentBlock(block, line string) []string {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	sizes := strings.NewReplacer("INDENT", fmt.Sprint(indent), "NESTED", fmt.Sprint(indent+2))
	var out []string
	for part := range strings.SplitSeq(sizes.Replace(block), "\n") {
		out = append(out, strings.Repeat(" ", indent)+part)
	}
	return out
}
