package render

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// change is a part of a document without a field, or with one value of it, and the same part with another.
type change struct{ before, after string }

// changes change one field each, by its path in [workload.Fields]. Each is the whole text of the top-level
// section it is in.
var changes = map[string]change{
	"kind":    {"", "kind: unheard"},
	"version": {"version: v0.1", "version: v0.2"},

	"job.name":        {"job: {name: a}", "job: {name: b}"},
	"job.namespace":   {"job: {name: a}", "job: {name: a, namespace: team}"},
	"job.priority":    {"job: {name: a}", "job: {name: a, priority: high}"},
	"job.description": {"job: {name: a}", "job: {name: a, description: text}"},
	"job.ttl":         {"job: {name: a}", "job: {name: a, ttl: 7d}"},
	"job.retries":     {"job: {name: a}", "job: {name: a, retries: 5}"},

	"environment.image":             {"environment: {image: a}", "environment: {image: b}"},
	"environment.image-pull-policy": {"environment: {image: a}", "environment: {image: a, image-pull-policy: Never}"},
	"environment.image-pull-secret": {"environment: {image: a}", "environment: {image: a, image-pull-secret: login}"},
	"environment.command":           {"environment: {image: a}", "environment: {image: a, command: [x]}"},
	"environment.args":              {"environment: {image: a}", "environment: {image: a, args: [x]}"},
	"environment.env[].name":        {"environment: {image: a, env: [{name: A}]}", "environment: {image: a, env: [{name: B}]}"},
	"environment.env[].value":       {"environment: {image: a, env: [{name: A}]}", "environment: {image: a, env: [{name: A, value: x}]}"},
	env + "secret-key-ref.name":     {source("secret-key-ref: {name: a, key: k}"), source("secret-key-ref: {name: b, key: k}")},
	env + "secret-key-ref.key":      {source("secret-key-ref: {name: a, key: k}"), source("secret-key-ref: {name: a, key: l}")},
	env + "secret-key-ref.optional": {source("secret-key-ref: {name: a, key: k}"), source("secret-key-ref: {name: a, key: k, optional: true}")},
	env + "config-map-key-ref.name": {source("config-map-key-ref: {name: a, key: k}"), source("config-map-key-ref: {name: b, key: k}")},
	env + "config-map-key-ref.key":  {source("config-map-key-ref: {name: a, key: k}"), source("config-map-key-ref: {name: a, key: l}")},
	env + "config-map-key-ref.optional": {
		source("config-map-key-ref: {name: a, key: k}"), source("config-map-key-ref: {name: a, key: k, optional: true}")},
	env + "field-ref.field-path":        {source("field-ref: {field-path: metadata.name}"), source("field-ref: {field-path: status.podIP}")},
	env + "resource-field-ref.resource": {source("resource-field-ref: {resource: limits.cpu}"), source("resource-field-ref: {resource: limits.memory}")},

	"resources.pool":         {"resources: {gpu: 1}", "resources: {gpu: 1, pool: p}"},
	"resources.gpu":          {"resources: {gpu: 1}", "resources: {gpu: 2}"},
	"resources.gpu-type":     {"resources: {gpu: 1}", "resources: {gpu: 1, gpu-type: T4}"},
	"resources.gpu-share":    {"resources: {gpu: 1}", "resources: {gpu: 1, gpu-share: 2Gi}"},
	"resources.cpu":          {"resources: {gpu: 1}", "resources: {gpu: 1, cpu: 2}"},
	"resources.memory":       {"resources: {gpu: 1}", "resources: {gpu: 1, memory: 2Gi}"},
	"resources.shm":          {"resources: {gpu: 1}", "resources: {gpu: 1, shm: 2Gi}"},
	tolerations + "key":      {tolerate("operator: Exists"), tolerate("operator: Exists, key: k")},
	tolerations + "operator": {tolerate("key: k"), tolerate("key: k, operator: Exists")},
	tolerations + "value":    {tolerate("key: k"), tolerate("key: k, value: v")},
	tolerations + "effect":   {tolerate("key: k"), tolerate("key: k, effect: NoSchedule")},
	tolerations + "toleration-seconds": {
		tolerate("key: k, effect: NoExecute"), tolerate("key: k, effect: NoExecute, toleration-seconds: 9")},
	"resources.time-limit": {"resources: {gpu: 1}", "resources: {gpu: 1, time-limit: 1h}"},

	"service.replicas":        {"service: {port: 5000}", "service: {port: 5000, replicas: 2}"},
	"service.port":            {"service: {port: 5000}", "service: {port: 6000}"},
	"service.target-port":     {"service: {port: 5000}", "service: {port: 5000, target-port: 6000}"},
	"service.type":            {"service: {port: 5000}", "service: {port: 5000, type: LoadBalancer}"},
	"service.health-check":    {"service: {port: 5000}", "service: {port: 5000, health-check: /x}"},
	"service.startup-timeout": {"service: {port: 5000, health-check: /x}", "service: {port: 5000, health-check: /x, startup-timeout: 1h}"},

	workdirs + "path":          {workdir("path: /x"), workdir("path: /y")},
	workdirs + "mount-path":    {workdir("path: /x"), workdir("path: /x, mount-path: /y")},
	workdirs + "read-only":     {workdir("path: /x"), workdir("path: /x, read-only: true")},
	workdirs + "type":          {workdir("path: /x"), workdir("path: /x, type: File")},
	workdirs + "pvc":           {workdir("path: /x"), workdir("path: /x, pvc: c")},
	workdirs + "size":          {workdir("path: /x"), workdir("path: /x, size: 1Gi")},
	workdirs + "storage-class": {workdir("path: /x, size: 1Gi"), workdir("path: /x, size: 1Gi, storage-class: c")},

	"metadata.name":         {"metadata: {name: a}", "metadata: {name: b}"},
	"metadata.description":  {"metadata: {name: a}", "metadata: {name: a, description: text}"},
	"nodes[].name":          {"nodes: [{name: n}]", "nodes: [{name: m}]"},
	"nodes[].gpu-type":      {"nodes: [{name: n}]", "nodes: [{name: n, gpu-type: T4}]"},
	"spec.nodes[].name":     {"spec: {nodes: [{name: n}]}", "spec: {nodes: [{name: m}]}"},
	"spec.nodes[].gpu-type": {"spec: {nodes: [{name: n}]}", "spec: {nodes: [{name: n, gpu-type: T4}]}"},
}

func init() {
	amounts := map[string]string{"gpu": "8", "shared-gpu": "9", "cpu": "10", "memory": "1Ti", "storage": "2Ti", "pods": "7"}
	for _, at := range []string{"", "spec."} {
		wrap := func(text string) string { return text }
		if at != "" {
			wrap = func(text string) string { return "spec: {" + text + "}" }
		}
		changes[at+"namespace[].name"] = change{wrap("namespace: [{name: n, gpu: 1}]"), wrap("namespace: [{name: m, gpu: 1}]")}
		for name, amount := range amounts {
			changes[at+"default."+name] = change{wrap("default: {gpu: 1}"), wrap("default: {" + name + ": " + amount + "}")}
			changes[at+"namespace[]."+name] = change{
				wrap("namespace: {n: {gpu: 1}}"), wrap("namespace: {n: {" + name + ": " + amount + "}}")}
		}
	}
}

const (
	env         = "environment.env[].value-from."
	tolerations = "resources.tolerations[]."
	workdirs    = "storage.workdirs[]."
)

func source(text string) string {
	return "environment: {image: a, env: [{name: A, value-from: {" + text + "}}]}"
}

func tolerate(text string) string {
	return "resources: {gpu: 1, tolerations: [{" + text + "}]}"
}

func workdir(text string) string {
	return "storage: {workdirs: [{" + text + "}]}"
}

// TestNoKeyIsDropped changes every field of every kind. Each change must show in the objects, or be reported:
// a key that is accepted and does nothing deceives its author.
func TestNoKeyIsDropped(t *testing.T) {
	for _, kind := range workload.Kinds {
		for _, f := range workload.Fields(kind) {
			if f.Section {
				continue
			}
			t.Run(string(kind)+" "+f.Path, func(t *testing.T) {
				c, ok := changes[f.Path]
				if !ok {
					t.Fatal("the field has no entry in changes: add one, so that the field is tested")
				}
				before, unclear := outcome(t, document(kind, c.before))
				if unclear {
					t.Fatalf("%q gives a diagnostic: the change must begin at a document without one", c.before)
				}
				after, reported := outcome(t, document(kind, c.after))
				if before == after && !reported {
					t.Errorf("%q and %q give the same objects and no diagnostic", c.before, c.after)
				}
			})
		}
	}
}

// TestNoKeyIsDroppedKnowsItsFields keeps the table above free of fields that do not exist.
func TestNoKeyIsDroppedKnowsItsFields(t *testing.T) {
	unused := maps.Clone(changes)
	for _, kind := range workload.Kinds {
		for _, f := range workload.Fields(kind) {
			delete(unused, f.Path)
		}
	}
	for path := range unused {
		t.Errorf("no kind has the field %s", path)
	}
}

// document returns a document of the kind with one of its sections replaced.
func document(kind workload.Kind, changed string) string {
	sections := []string{"kind: " + string(kind), "job: {name: a}", "environment: {image: a}"}
	if kind == workload.KindPool {
		sections = []string{"kind: pool", "metadata: {name: a}", "nodes: [{name: n}]"}
		if topKey(changed) == "spec" {
			sections = sections[:2]
		}
	}
	if kind == workload.KindQuota {
		sections = []string{"kind: quota", "metadata: {name: a}", "namespace: {n: {gpu: 1}}"}
		if topKey(changed) == "spec" {
			sections = sections[:2]
		}
	}
	replaced := false
	for i, section := range sections {
		if topKey(section) == topKey(changed) {
			sections[i], replaced = changed, true
		}
	}
	if !replaced {
		sections = append(sections, changed)
	}
	return strings.Join(sections, "\n") + "\n"
}

func topKey(section string) string {
	key, _, _ := strings.Cut(section, ":")
	return key
}

// outcome returns the rendered objects without the copy of the document in them, and whether anything was
// reported.
func outcome(t *testing.T, text string) (rendered string, reported bool) {
	t.Helper()
	docs, diagnostics := workload.Parse("test.yaml", []byte(text))
	var out bytes.Buffer
	for _, doc := range docs {
		objects, _, err := Objects(doc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			delete(object.GetAnnotations(), names.AnnotationSubmitted)
		}
		if err := YAML(&out, objects); err != nil {
			t.Fatal(err)
		}
	}
	return out.String(), len(diagnostics) > 0
}
