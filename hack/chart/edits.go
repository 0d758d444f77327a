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

// kept reports whether an uninstall leaves the object: objects of users belong to these kinds, or an administrator wrote it. Without gpuctl-policy
// the policies refuse every pod, and the more so the later they are removed; g8s-spot contains the Secrets of clouds, without which machines cannot
// be terminated.
func (e *edits) kept() bool {
	switch kind, name := text(e.object, "kind"), text(e.object, "metadata", "name"); kind {
	case "CustomResourceDefinition":
		return true
	case "ConfigMap":
		return name == "gpuctl-policy" || name == "gpuctl-presets"
	case "Namespace":
		return name == "g8s-spot"
	}
	return false
}

func (e *edits) all() {
	if e.kept() {
		metadata := field(e.object, "metadata")
		if field(metadata, "annotations") == nil {
			set(metadata, "annotations", &yaml.Node{Kind: yaml.MappingNode})
		}
		set(field(metadata, "annotations"), "helm.sh/resource-policy", scalar("keep"))
	}
	switch kind := text(e.object, "kind"); kind {
	case "Deployment", "StatefulSet", "DaemonSet":
		e.workload(kind)
	case "ConfigMap":
		e.config()
	case "Namespace":
		if e.component.name == "server" {
			e.condition = ".Values.server.createNamespace"
		}
	}
	switch e.component.name {
	case "server":
		e.namespace(e.object)
	case "monitoring":
		e.monitor()
		e.namespace(e.object)
	}
}

// monitor includes the monitoring of a component only if the component is enabled, and uses the configured names.
func (e *edits) monitor() {
	for name, component := range map[string]string{
		"gpu-scheduler": "scheduler", "gpu-controller": "controller", "gpu-agent": "agent", "gpuctl-server": "server", "gpu-ledger": "ledger",
	} {
		own := text(e.object, "metadata", "name")
		if (own == name || own == name+"-metrics") && text(e.object, "kind") != "PrometheusRule" { // the PrometheusRule covers all components
			e.condition = ".Values." + component + ".enabled"
		}
	}
	e.replace(e.object, map[string]string{
		"gpuctl-server-tls":               ".Values.server.tls.secretName",
		"gpu-ledger-tls":                  ".Values.ledger.tls.secretName",
		"gpuctl-server.gpuctl-server.svc": `printf "gpuctl-server.%s.svc" .Values.server.namespace`,
	})
}

// replace puts placeholders where these texts are a whole value.
func (e *edits) replace(node *yaml.Node, texts map[string]string) {
	for i, child := range node.Content {
		if expression, found := texts[child.Value]; found && child.Kind == yaml.ScalarNode {
			node.Content[i] = e.value(expression)
			continue
		}
		e.replace(child, texts)
	}
}

// workload makes the placement, the number and the image of pods configurable.
func (e *edits) workload(kind string) {
	values := ".Values." + e.component.name
	spec := field(e.object, "spec")
	if kind == "Deployment" {
		set(spec, "replicas", e.value(values+".replicas"))
	}
	if kind == "StatefulSet" {
		claim := field(spec, "volumeClaimTemplates").Content[0]
		requests := field(field(field(claim, "spec"), "resources"), "requests")
		set(requests, "storage", e.value(values+".storage.size"))
		e.with(field(claim, "spec"), "storageClassName", values+".storage.className")
	}
	pod := field(field(spec, "template"), "spec")
	for _, name := range []string{"nodeSelector", "tolerations"} {
		e.with(pod, name, values+"."+name)
	}
	e.with(pod, "imagePullSecrets", ".Values.image.pullSecrets")
	container := field(pod, "containers").Content[0]
	name := text(container, "name")
	set(container, "image", e.value(fmt.Sprintf(`include "g8s.image" (list $ %q %s.image)`, name, values)))
	e.with(container, "imagePullPolicy", ".Values.image.pullPolicy")
	e.with(container, "resources", values+".resources")
	if e.component.traced {
		e.tracing(pod, container)
	}
	args := field(container, "args")
	args.Content = append(args.Content, e.block("{{- with "+values+".extraArgs }}\n{{- toYaml . | nindent INDENT }}\n{{- end }}"))
	for _, volume := range items(field(pod, "volumes")) {
		if secret := field(volume, "secret"); secret != nil {
			set(secret, "secretName", e.value(values+".tls.secretName"))
		}
		e.configVolume(volume)
	}
}

// tracing mounts the file of templates/tracing.yaml, if there is one.
func (e *edits) tracing(pod, container *yaml.Node) {
	e.added(container, "args", "- --tracing-config-file=/etc/g8s-tracing/tracing.yaml")
	e.added(container, "volumeMounts", "- mountPath: /etc/g8s-tracing\n  name: tracing\n  readOnly: true")
	e.added(pod, "volumes", "- configMap:\n    name: {{ include \"g8s.tracingName\" $ }}\n  name: tracing")
}

// added appends lines to a list if spans are sent. The list may be missing.
func (e *edits) added(mapping *yaml.Node, list, lines string) {
	const condition = "{{- if (.Values.tracing).endpoint }}\n%s\n{{- end }}"
	if found := field(mapping, list); found != nil {
		found.Content = append(found.Content, e.block(fmt.Sprintf(condition, lines)))
		return
	}
	marker := e.block(fmt.Sprintf(condition, list+":\n"+lines))
	mapping.Content = append(mapping.Content, marker, scalar("x")) // a key needs a value; the whole line is replaced
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
	config := field(volume, "configMap")
	if name := text(config, "name"); strings.HasPrefix(name, configPrefix) {
		set(config, "name", e.value(configName(name)))
	}
}

// config uses the user's own files in place of those of manifests/scheduler.
func (e *edits) config() {
	metadata, data := field(e.object, "metadata"), field(e.object, "data")
	file := `default (.Files.Get "files/%s") .Values.scheduler.%s | toJson`
	switch name := text(metadata, "name"); {
	case strings.HasPrefix(name, configPrefix):
		set(metadata, "name", e.value(configName(name)))
		set(data, configFiles[0], e.value(fmt.Sprintf(file, configFiles[0], "config")))
	case name == policyName:
		set(data, configFiles[1], e.value(fmt.Sprintf(file, configFiles[1], "scorePolicy")))
	}
}

// namespace puts the server into the configured namespace.
func (e *edits) namespace(node *yaml.Node) {
	if text(e.object, "kind") == "Namespace" {
		set(field(e.object, "metadata"), "name", e.value(".Values.server.namespace"))
		return
	}
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == "namespace" && node.Content[i+1].Value == serverNamespace {
			node.Content[i+1] = e.value(".Values.server.namespace")
		}
	}
	for _, child := range node.Content {
		e.namespace(child)
	}
}

// with sets a field to a user's value; the field is absent if the value is empty.
func (e *edits) with(mapping *yaml.Node, name, value string) {
	remove(mapping, name)
	marker := e.block(fmt.Sprintf("{{- with %s }}\n%s: {{- toYaml . | nindent NESTED }}\n{{- end }}", value, name))
	mapping.Content = append(mapping.Content, marker, scalar("x"))
}

// value is a placeholder for one value.
func (e *edits) value(expression string) *yaml.Node {
	return e.place(place{expression: "{{ " + expression + " }}"})
}

// block is a placeholder for lines. INDENT in them is the column where they begin, NESTED the next level.
func (e *edits) block(lines string) *yaml.Node {
	return e.place(place{expression: lines, block: true})
}

func (e *edits) place(p place) *yaml.Node {
	e.places = append(e.places, p)
	return scalar(fmt.Sprintf("__place_%d__", len(e.places)-1))
}

var marker = regexp.MustCompile(`__place_(\d+)__`)

// fill replaces the markers by their expressions, and fails if a marker is missing. Text that already looks like an expression is escaped.
func (e *edits) fill(encoded string) (string, error) {
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
			out = append(out, indented(p.expression, line)...)
		} else {
			out = append(out, strings.Replace(line, found[0], p.expression, 1))
		}
	}
	if filled != len(e.places) {
		return "", fmt.Errorf("%d of %d places are in the text", filled, len(e.places))
	}
	return strings.Join(out, "\n"), nil
}

// indented indents a block like the line of its marker.
func indented(block, line string) []string {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	sizes := strings.NewReplacer("INDENT", fmt.Sprint(indent), "NESTED", fmt.Sprint(indent+2))
	var out []string
	for part := range strings.SplitSeq(sizes.Replace(block), "\n") {
		out = append(out, strings.Repeat(" ", indent)+part)
	}
	return out
}
