// Command chart writes the templates of the Helm chart from the kustomizations of manifests/, so that both install the same
// objects. What a user may set is put into the places of [edits]; everything else is as kustomize has it.
//
//	go run ./hack/chart -kubectl bin/tools/kubectl -manifests manifests
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	kubectl := flag.String("kubectl", "bin/tools/kubectl", "The kubectl that builds kustomizations")
	manifests := flag.String("manifests", "manifests", "The folder of the kustomizations; its folder chart is written")
	flag.Parse()
	if err := writeChart(*kubectl, *manifests); err != nil {
		fmt.Fprintln(os.Stderr, "writing the chart:", err)
		os.Exit(1)
	}
}

// writeChart builds every component and writes its template, and the files that templates read.
func writeChart(kubectl, manifests string) error {
	build := func(folder string) ([]byte, error) {
		return buildKustomization(kubectl, filepath.Join(manifests, folder))
	}
	templates, err := renderTemplates(build)
	if err != nil {
		return err
	}
	chart := filepath.Join(manifests, "chart")
	for name, text := range templates {
		if err := os.WriteFile(filepath.Join(chart, "templates", name+".yaml"), []byte(text), 0o644); err != nil {
			return err // the error names the file
		}
	}
	for _, name := range configFiles {
		data, err := os.ReadFile(filepath.Join(manifests, "scheduler", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(chart, "files", name), data, 0o644)
		}
		if err != nil {
			return err // the error names the file
		}
	}
	return nil
}

// configFiles are the files of manifests/scheduler that become the data of ConfigMaps.
var configFiles = []string{"scheduler-config.yaml", "score-policy.yaml"}

func buildKustomization(kubectl, folder string) ([]byte, error) {
	cmd := exec.Command(kubectl, "kustomize", folder)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", folder, err)
	}
	return out, nil
}
