package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// The kinds of krew's index: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       pluginSpec        `json:"spec"`
}

type pluginSpec struct {
	Version          string           `json:"version"`
	Homepage         string           `json:"homepage"`
	ShortDescription string           `json:"shortDescription"`
	Description      string           `json:"description"`
	Platforms        []pluginPlatform `json:"platforms"`
}

type pluginPlatform struct {
	Selector pluginSelector `json:"selector"`
	URI      string         `json:"uri"`
	SHA256   string         `json:"sha256"`
	Files    []pluginFile   `json:"files"`
	Bin      string         `json:"bin"`
}

type pluginSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type pluginFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// krewManifest returns the manifest with which `kubectl krew install` installs gpuctl as kubectl gpu: JSON, which is YAML. url is the location of the
// release's archives.
func krewManifest(version, url, homepage string, archives []archive) ([]byte, error) {
	p := plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "gpu"},
		Spec: pluginSpec{
			Version: version, Homepage: homepage, ShortDescription: "Run jobs on the GPUs of a cluster",
			Description: "Submits training, inference, notebook and compute jobs for gpu-scheduler, shows where they run, and says why\n" +
				"one waits and what to change. It is gpuctl by another name.\n",
		},
	}
	for _, a := range archives {
		p.Spec.Platforms = append(p.Spec.Platforms, pluginPlatform{
			Selector: pluginSelector{map[string]string{"os": a.platform.OS, "arch": a.platform.Arch}},
			URI:      strings.TrimSuffix(url, "/") + "/" + a.name, SHA256: a.sum,
			Files: []pluginFile{{a.program, "."}, {"LICENSE", "."}}, Bin: a.program,
		})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(p)
	return out.Bytes(), err
}
