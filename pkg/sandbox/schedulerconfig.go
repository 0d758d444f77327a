package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
)

// schedulerPaths are the files with other paths outside of a cluster.
type schedulerPaths struct{ kubeconfig, policy string }

// PolicyPath is the schedulers' scoring policy, which is mounted in their pods. It starts as that of the manifests; writing to it changes how nodes
// are scored from the next second on.
func (s *Sandbox) PolicyPath() string {
	return filepath.Join(s.dir, "policy", filepath.Base(schedulerPolicy))
}

// writePolicy writes the scoring policy of the manifests, unless there is one already, which may have been changed.
func (s *Sandbox) writePolicy() error {
	if _, err := os.Stat(s.PolicyPath()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := fs.ReadFile(manifests.FS, schedulerPolicy)
	if err != nil {
		return fmt.Errorf("reading the scoring policy: %w", err)
	}
	return writeFile(s.PolicyPath(), data)
}

// writeSchedulerConfig writes the configuration with the changes that it needs outside of a cluster.
func writeSchedulerConfig(path, from string, paths schedulerPaths) error {
	read := func() ([]byte, error) { return fs.ReadFile(manifests.FS, schedulerConfig) }
	if from != "" {
		read = func() ([]byte, error) { return os.ReadFile(from) }
	}
	data, err := read()
	if err != nil {
		return fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	data, err = withPaths(data, paths)
	if err != nil {
		return fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	return writeFile(path, data)
}

// withPaths sets clientConnection.kubeconfig in a KubeSchedulerConfiguration, since kube-scheduler ignores its flag --kubeconfig when it has a
// configuration file, and the policyFile if it is that of the Deployment. It keeps everything else, including errors.
func withPaths(data []byte, paths schedulerPaths) ([]byte, error) {
	var config map[string]any
	if err := safeyaml.Unmarshal(data, &config, safeyaml.Configuration); err != nil {
		return nil, err
	}
	if config == nil {
		return nil, errors.New("it is empty")
	}
	connection, ok := config["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
	}
	connection["kubeconfig"] = paths.kubeconfig
	config["clientConnection"] = connection
	for _, profile := range objectEntries(config["profiles"]) {
		for _, plugin := range objectEntries(profile["pluginConfig"]) {
			if args, ok := plugin["args"].(map[string]any); ok && args["policyFile"] == mountedPolicy {
				args["policyFile"] = paths.policy
			}
		}
	}
	return yaml.Marshal(config)
}

// objectEntries returns the entries of a list that are objects, none if the value is not a list.
func objectEntries(value any) []map[string]any {
	list, _ := value.([]any)
	var found []map[string]any
	for _, entry := range list {
		if object, ok := entry.(map[string]any); ok {
			found = append(found, object)
		}
	}
	return found
}
