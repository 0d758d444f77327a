package kubelet

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTopologyPolicy(t *testing.T) {
	files := fstest.MapFS{
		"var/lib/kubelet/config.yaml":       {Data: []byte("kind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n")},
		"var/lib/kubelet/plain.yaml":        {Data: []byte("kind: KubeletConfiguration\n")},
		"etc/kubernetes/kubelet/10-a.conf":  {Data: []byte("topologyManagerPolicy: best-effort\n")},
		"etc/kubernetes/kubelet/20-b.conf":  {Data: []byte(`{"topologyManagerPolicy": "single-numa-node"}`)},
		"etc/kubernetes/kubelet/30-c.yaml":  {Data: []byte("topologyManagerPolicy: none\n")},
		"etc/kubernetes/deep/10/50-d.conf":  {Data: []byte("topologyManagerPolicy: best-effort\n")},
		"etc/kubernetes/deep/20/10-e.conf":  {Data: []byte("topologyManagerPolicy: restricted\n")},
		"etc/kubernetes/deep/19-f.conf":     {Data: []byte("topologyManagerPolicy: none\n")},
		"dev/zero":                          {Mode: fs.ModeDevice | fs.ModeCharDevice},
		"large.yaml":                        {Data: make([]byte, maxSettings+1)},
		"etc/kubernetes/broken/kubelet.yml": {Data: []byte("topologyManagerPolicy: [")},
	}
	for name, tc := range map[string]struct {
		line, want string
		fails      bool
	}{
		"nothing is said":                         {line: "kubelet", want: AlignNothing},
		"the file says nothing":                   {line: "kubelet --config=/var/lib/kubelet/plain.yaml", want: AlignNothing},
		"the file says it":                        {line: "kubelet --v=2 --config /var/lib/kubelet/config.yaml", want: "restricted"},
		"the last file of the folder wins":        {line: "kubelet --config=/var/lib/kubelet/config.yaml --config-dir=/etc/kubernetes/kubelet", want: "single-numa-node"},
		"subfolders are read, by path":            {line: "kubelet --config-dir=/etc/kubernetes/deep", want: "restricted"},
		"the folder is not there":                 {line: "kubelet --config-dir=/nowhere", fails: true},
		"the flag wins":                           {line: "kubelet --config=/var/lib/kubelet/config.yaml --topology-manager-policy=best-effort", want: "best-effort"},
		"the last flag wins":                      {line: "kubelet -topology-manager-policy=restricted --topology-manager-policy none", want: "none"},
		"a flag whose name begins like the other": {line: "kubelet --topology-manager-policy-options=max-allowable-numa-nodes=16", want: AlignNothing},
		"the file is not there":                   {line: "kubelet --config=/nowhere.yaml", fails: true},
		"the file is broken":                      {line: "kubelet --config=/etc/kubernetes/broken/kubelet.yml", fails: true},
		"the file is a device":                    {line: "kubelet --config=/dev/zero", fails: true},
		"the file is too large":                   {line: "kubelet --config=/large.yaml", fails: true},
		"there is no such policy":                 {line: "kubelet --topology-manager-policy=whatever", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := topologyPolicy(strings.Fields(tc.line), files)
			if policy != tc.want || (err != nil) != tc.fails {
				t.Errorf("it is %q (%v), want %q", policy, err, tc.want)
			}
		})
	}
}

// TestTheKubeletOfTheNode: of several on a machine it is the one that calls itself as the node.
func TestTheKubeletOfTheNode(t *testing.T) {
	for name, tc := range map[string]struct {
		lines map[string]string // of the processes called kubelet
		// inContainer are those of them in a container.
		inContainer []string
		want        string
	}{
		"one":                       {lines: map[string]string{"12": "kubelet --topology-manager-policy=restricted"}, want: "restricted"},
		"none":                      {},
		"two, of unknown nodes":     {lines: map[string]string{"12": "kubelet", "13": "kubelet"}},
		"two, one of them the node": {lines: map[string]string{"12": "kubelet", "13": "kubelet --hostname-override=n --topology-manager-policy=restricted", "14": "kubelet"}, want: "restricted"},
		"a container calls itself kubelet": {
			lines:       map[string]string{"12": "kubelet --topology-manager-policy=restricted", "13": "kubelet --hostname-override=n --config=/dev/zero"},
			inContainer: []string{"13"}, want: "restricted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			procs := t.TempDir()
			write := func(pid, file, text string) {
				t.Helper()
				if err := os.MkdirAll(filepath.Join(procs, pid, "root"), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(procs, pid, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			mounts := func(pid, of string) {
				t.Helper()
				write(pid, "comm", "kubelet\n")
				if err := os.MkdirAll(filepath.Join(procs, pid, "ns"), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink("mnt:["+of+"]", filepath.Join(procs, pid, "ns/mnt")); err != nil {
					t.Fatal(err)
				}
			}
			mounts("1", "machine")
			write("1", "comm", "systemd\n")
			write("self", "comm", "kubelet\n")
			for pid, line := range tc.lines {
				mounts(pid, map[bool]string{true: "container", false: "machine"}[slices.Contains(tc.inContainer, pid)])
				write(pid, "cmdline", strings.ReplaceAll(line, " ", "\x00")+"\x00")
			}
			if policy, err := ReadTopologyPolicy(procs, "n"); policy != tc.want || err != nil {
				t.Errorf("it is %q (%v), want %q", policy, err, tc.want)
			}
		})
	}
}
