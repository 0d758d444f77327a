package procs

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestPodIn(t *testing.T) {
	const uid = "2f1d3c4b-0a1b-4c2d-8e3f-001122334455"
	for cgroups, want := range map[string]types.UID{
		"0::/kubepods/besteffort/pod" + uid + "/3f9c\n":                                                                                            uid,
		"12:memory:/lab/kubepods/pod" + uid + "/3f9c\n1:name=systemd:/\n":                                                                          uid,
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2f1d3c4b_0a1b_4c2d_8e3f_001122334455.slice/cri-containerd-3f9c.scope\n": uid,
		"0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/3f9c\n":                                                                        "0123456789abcdef0123456789abcdef",
		"0::/system.slice/sshd.service\n":                                                                                                          "",
		"0::/kubepods/podless/3f9c\n":                                                                                                              "",
		"":                                                                                                                                         "",
	} {
		if got := parsePodUID(cgroups); got != want {
			t.Errorf("%q is of pod %q, want %q", cgroups, got, want)
		}
	}
}

func TestProcessesOfThisMachine(t *testing.T) {
	if _, err := FindPod(Root, os.Getpid()); err != nil {
		t.Error(err)
	}
	if _, err := FindPod(Root, 1<<30); err == nil {
		t.Error("a process that does not exist has a pod")
	}
}
