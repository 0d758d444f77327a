package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// kind returns the kind of the job to run.
func (o *runOptions) kind() workload.Kind {
	switch {
	case o.notebook:
		return workload.KindNotebook
	case o.service:
		return workload.KindInference
	}
	return workload.KindTraining
}

// trainingFlags are the flags that only a training job can have.
var trainingFlags = []string{"ttl", "depends-on", "after", "array", "retries", "nodes", "workdir", "time-limit"}

// checkKind refuses flags that contradict the kind of the job.
func (o *runOptions) checkKind(cmd *cobra.Command) error {
	switch {
	case o.notebook && o.service:
		return usageErrorf("a job is a notebook or a service: leave out --notebook or --service")
	case o.kind() == workload.KindTraining && cmd.Flags().Changed("port"):
		return usageErrorf("--port is of a notebook or a service: add --notebook or --service")
	case o.kind() == workload.KindTraining:
		return nil
	case o.isSession():
		return usageErrorf("a notebook or a service runs without you: leave out -i and -t, and connect by gpuctl open, shell or attach")
	}
	for _, name := range trainingFlags {
		if cmd.Flags().Changed(name) {
			return usageErrorf("--%s is of a training job, which ends by itself; a %s runs until it is deleted: leave it out", name, o.kind())
		}
	}
	return nil
}

// addAttachments adds the secrets and the volumes of the flags to the YAML.
func (o *runOptions) addAttachments(source string) (string, error) {
	variables, err := secretVariables(o.secrets)
	if err != nil {
		return "", err
	}
	mounts, err := volumeMounts(o.volumes)
	if err != nil {
		return "", err
	}
	if len(variables) > 0 {
		if source, err = jobplan.SetField(source, "environment.env", variables); err != nil {
			return "", err
		}
	}
	if len(mounts) > 0 {
		source, err = jobplan.SetField(source, "storage.workdirs", mounts)
	}
	return source, err
}

// secretVariables returns the entries of environment.env for the values of --secret.
func secretVariables(flags []string) (variables []any, err error) {
	for _, text := range flags {
		variable, from, ok := strings.Cut(text, "=")
		name, key, keyed := strings.Cut(from, "/")
		if !ok || !keyed || variable == "" || name == "" || key == "" {
			return nil, usageErrorf("--secret %s: write VARIABLE=SECRET/KEY, such as HF_TOKEN=hugging-face/token", text)
		}
		variables = append(variables, map[string]any{"name": variable, "value-from": map[string]any{"secret-key-ref": map[string]any{"name": name, "key": key}}})
	}
	return variables, nil
}

// volumeMounts returns the entries of storage.workdirs for the values of --volume.
func volumeMounts(flags []string) (mounts []any, err error) {
	for _, text := range flags {
		name, path, ok := strings.Cut(text, ":")
		path, readOnly := strings.CutSuffix(path, ":ro")
		if !ok || name == "" || !strings.HasPrefix(path, "/") || strings.Contains(path, ":") {
			return nil, usageErrorf("--volume %s: write VOLUME:PATH, such as data:/data, or VOLUME:PATH:ro", text)
		}
		mount := map[string]any{"pvc": name, "mount-path": path}
		if readOnly {
			mount["read-only"] = true
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}
