package realnode

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAMachineIsRefusedWithEveryReason(t *testing.T) {
	broken := errors.New("read-only file system")
	tests := map[string]struct {
		machine Machine
		want    []string
	}{
		"one that can":                {machine: Machine{OS: "linux"}},
		"another system says no more": {machine: Machine{OS: "darwin", UID: 501, Cgroups: broken}, want: []string{"it runs darwin"}},
		"a user":                      {machine: Machine{OS: "linux", UID: 1000}, want: []string{"user 1000 is not root"}},
		"root in a container that may nothing": {
			machine: Machine{OS: "linux", Namespaces: errors.New("operation not permitted"), Cgroups: broken},
			want:    []string{"no namespaces can be made: operation not permitted", "no cgroup can be made: read-only file system"},
		},
		"a machine without a network": {machine: Machine{OS: "linux", Address: errors.New("no default routes")},
			want: []string{"it has no address but loopback: no default routes"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := tc.machine.CheckSupport()
			if len(tc.want) == 0 {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if want := ErrCannot.Error() + ": " + strings.Join(tc.want, "; "); !errors.Is(err, ErrCannot) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %q, want it to begin with %q", err, want)
			}
		})
	}
}

func TestMissingProgramsAreNamedWithWhatBuildsThem(t *testing.T) {
	dir := t.TempDir()
	for _, name := range programs[1:] {
		write(t, filepath.Join(dir, name), "")
	}
	err := CheckTools(dir)
	if err == nil || !strings.Contains(err.Error(), "missing kubelet in "+dir+`: run "make node-tools"`) {
		t.Errorf("got %v", err)
	}
	write(t, filepath.Join(dir, programs[0]), "")
	if err := CheckTools(dir); err != nil {
		t.Errorf("got %v when all are there", err)
	}
}

func TestTheFolderMayNotBeWhereTheNodeHasItsOwn(t *testing.T) {
	if err := InspectMachine().CheckSupport(); err != nil {
		t.Skip(err)
	}
	for _, dir := range []string{"/run/user/0/x", "/var/lib/x", "/var/log", "/var/run/x"} {
		if err := Check(dir); err == nil || !strings.Contains(err.Error(), "put it elsewhere") {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	for _, dir := range []string{"/tmp/x", "/var/library", "/running"} {
		if err := Check(dir); err != nil {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

// TestCgroupsAreMadeInEveryHierarchy works on folders that look like cgroups: what the kernel adds is not there.
func TestCgroupsAreMadeInEveryHierarchy(t *testing.T) {
	v1, v2, empty := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{"cpu,cpuacct", "cpuset", "memory"} {
		write(t, filepath.Join(v1, name, "cgroup.procs"), "")
	}
	write(t, filepath.Join(v1, "cpuset", "cpuset.cpus"), "0-1\n")
	write(t, filepath.Join(v1, "cpuset", "cpuset.mems"), "0\n")
	if err := os.Symlink("cpu,cpuacct", filepath.Join(v1, "cpu")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(v2, "cgroup.controllers"), "cpuset cpu io memory hugetlb pids rdma\n")

	groups, err := findCgroups(v1)
	if err != nil || len(groups.hierarchies) != 3 {
		t.Fatalf("found %v, error %v, want the three folders and not the link", groups.hierarchies, err)
	}
	for range 2 { // the second time they are there
		if err := groups.createCgroup("x"); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, filepath.Join(v1, "cpuset", "x", "cpuset.cpus")); got != "0-1\n" {
		t.Errorf("the new cgroup has processors %q", got)
	}
	if got := read(t, filepath.Join(v1, "cpuset", "x", "cpuset.mems")); got != "0\n" {
		t.Errorf("the new cgroup has memory nodes %q", got)
	}

	groups, err = findCgroups(v2)
	if err != nil || !groups.unified {
		t.Fatalf("found %+v, error %v", groups, err)
	}
	write(t, filepath.Join(v2, "cgroup.subtree_control"), "")
	if err := groups.createCgroup("x"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(v2, "cgroup.subtree_control")); got != "+cpuset +cpu +memory +hugetlb +pids" {
		t.Errorf("turned on %q", got)
	}
	if err := groups.removeCgroup("x"); err != nil {
		t.Error(err)
	}
	if err := groups.removeCgroup("x"); err != nil {
		t.Errorf("got %v when it is gone", err)
	}
	if _, err := findCgroups(empty); err == nil {
		t.Error("found cgroups in an empty folder")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
