package workload

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/test/golden"
)

// compileSchema compiles our schema with a validator that is not ours.
func compileSchema(t *testing.T, kinds ...Kind) *jsonschema.Schema {
	t.Helper()
	data, err := json.Marshal(JSONSchema(kinds...))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("gpuctl.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("gpuctl.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// validate holds a YAML document against a schema.
func validate(t *testing.T, schema *jsonschema.Schema, document string) error {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func TestSchemaAcceptsTheExamples(t *testing.T) {
	schema := compileSchema(t, Kinds...)
	var files []string
	for _, pattern := range []string{"../../examples/*.yaml", "../../examples/demo/*.yaml", "../render/testdata/contract/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("finding %s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.Contains(file, "expected") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs, diagnostics := Parse(file, data)
		if diagnostics.HasErrors() {
			t.Fatal(diagnostics)
		}
		for _, doc := range docs {
			if err := validate(t, schema, doc.Source); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// TestSchemaAgreesWithTheParser holds the sample of each field against the schema, and a misspelling of its key.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	for _, kind := range Kinds {
		schema := compileSchema(t, kind)
		for _, f := range Fields(kind) {
			if f.Section {
				continue
			}
			sample, err := SampleOf(kind, f.Path)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, schema, sample.With); err != nil {
				t.Errorf("%s %s: %v\n%s", kind, f.Path, err, sample.With)
			}
			_, name := splitPath(f.Path)
			if name == "name" || strings.Contains(f.Path, "env[]") {
				continue // where names are keys, every key is a name
			}
			for _, misspelt := range []string{"\n" + name + ":", " " + name + ":", "{" + name + ":"} {
				wrong := strings.Replace(sample.With, misspelt, strings.Replace(misspelt, name, name+"zz", 1), 1)
				if wrong != sample.With && validate(t, schema, wrong) == nil {
					t.Errorf("%s %s: a misspelt key is accepted:\n%s", kind, f.Path, wrong)
				}
			}
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t, Kinds...)
	cases := map[string]string{
		"an unknown kind":                        "kind: cronjob\n",
		"a document without kind":                "job: {name: a}\n",
		"a missing field":                        "kind: training\njob: {name: a}\n",
		"a word for a number":                    training + "resources: {gpu: many}\n",
		"a number out of range":                  inference + "service: {port: 70000}\n",
		"a word not in the list":                 "kind: training\njob: {name: a, priority: urgent}\nenvironment: {image: b}\n",
		"another kind's field":                   training + "service: {port: 1}\n",
		"text for a list":                        "kind: training\njob: {name: a}\nenvironment: {image: b, command: python x.py}\n",
		"a field without what it needs":          inference + "service: {startup-timeout: 5m}\n",
		"that, in another spelling":              inference + "service: {startup_timeout: 5m}\n",
		"a need of another section":              inference + "service: {autoscaling: {max: 4, gpu-utilization: 70}}\n",
		"a need that is 0":                       inference + "resources: {gpu: 0}\nservice: {autoscaling: {max: 4, gpu-utilization: 70}}\n",
		"neighbours that exclude each other":     inference + "resources: {cpu: 1}\nservice: {replicas: 2, autoscaling: {max: 4, cpu-utilization: 80}}\n",
		"sections that exclude each other":       "kind: pool\nmetadata: {name: p}\nnodes: [n]\nspec: {nodes: [m]}\n",
		"amounts of a quota without a namespace": "kind: quota\nmetadata: {name: q}\nspec: {gpu: 1}\n",
		"a duration without unit":                training + "resources: {time-limit: soon}\n",
	}
	for name, document := range cases {
		t.Run(name, func(t *testing.T) {
			if err := validate(t, schema, document); err == nil {
				t.Errorf("accepted:\n%s", document)
			}
		})
	}
}

func TestSkeletonsAreValid(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(string(kind), func(t *testing.T) {
			text, err := Skeleton(kind, phrase.English)
			if err != nil {
				t.Fatal(err)
			}
			parseOne(t, text)
			if err := validate(t, compileSchema(t, kind), text); err != nil {
				t.Error(err)
			}
			for _, f := range Fields(kind) {
				parent, name := splitPath(f.Path)
				if strings.Contains(f.Path, "<") || strings.Contains(f.Path, "spec") || strings.Contains(parent, "[]") || strings.Contains(parent, "autoscaling") || parent == "default" {
					continue // a section that stands there with one example
				}
				if !strings.Contains(text, name+":") {
					t.Errorf("%s is not in the skeleton", f.Path)
				}
			}
			golden.Compare(t, filepath.Join("testdata", "skeleton", string(kind)+".yaml"), text)
		})
	}
}

func TestLookup(t *testing.T) {
	cases := map[string]struct{ path, want, below, wantErr string }{
		"a field":              {path: "training.resources.gpu-share", want: "resources.gpu-share"},
		"in another spelling":  {path: "training.resources.gpuShare", want: "resources.gpu-share"},
		"in a list":            {path: "training.storage.workdirs.path", want: "storage.workdirs[].path"},
		"a section":            {path: "training.storage", want: "storage", below: "storage.workdirs storage.<name>"},
		"a kind":               {path: "quota", below: "kind version metadata default namespace spec"},
		"an alias of a kind":   {path: "resource.nodes", want: "nodes", below: "nodes[].name nodes[].gpu-type"},
		"a misspelt field":     {path: "training.resources.gpus", wantErr: `training.resources has no field "gpus" (did you mean "gpu"?)`},
		"a field of no kind":   {path: "job", wantErr: `there is no kind "job"`},
		"another kind's field": {path: "training.service", wantErr: `training has no field "service"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, field, below, err := Lookup(tc.path)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range below {
				paths = append(paths, f.Path)
			}
			if field.Path != tc.want || strings.Join(paths, " ") != tc.below {
				t.Errorf("got %q with %q below, want %q with %q", field.Path, paths, tc.want, tc.below)
			}
		})
	}
}
