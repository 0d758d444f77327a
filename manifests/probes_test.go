package manifests

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// TestKubeletRestartsASchedulerWhoseLoopStandsStill: /livez fails then, and /healthz does not.
func TestKubeletRestartsASchedulerWhoseLoopStandsStill(t *testing.T) {
	file, err := FS.ReadFile("scheduler/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(file, &deployment); err != nil {
		t.Fatal(err)
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		probe := container.LivenessProbe
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/livez" {
			t.Errorf("container %s: liveness probe %v, want one that asks /livez", container.Name, probe)
		}
	}
	if len(deployment.Spec.Template.Spec.Containers) == 0 {
		t.Error("the deployment has no container")
	}
}
