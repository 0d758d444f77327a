package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// controllers are those of cgroup v2 that kubelet asks for where the machine has them.
var controllers = []string{"cpu", "cpuset", "hugetlb", "memory", "pids"}

// cgroups is where cgroups are made.
type cgroups struct {
	// hierarchies are the folders of the hierarchies: one for each controller with cgroup v1, one in all with v2.
	hierarchies []string
	unified     bool
}

// findCgroups reads which hierarchies there are below a folder, which is [cgroupRoot] but in tests.
func findCgroups(root string) (cgroups, error) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return cgroups{hierarchies: []string{root}, unified: true}, nil
	}
	// Controllers that share a hierarchy have a link each beside its folder.
	paths, err := filepath.Glob(filepath.Join(root, "*", "cgroup.procs"))
	if err != nil {
		return cgroups{}, fmt.Errorf("finding cgroups: %w", err)
	}
	var found cgroups
	for _, path := range paths {
		if info, err := os.Lstat(filepath.Dir(path)); err == nil && info.IsDir() {
			found.hierarchies = append(found.hierarchies, filepath.Dir(path))
		}
	}
	if len(found.hierarchies) == 0 {
		return cgroups{}, fmt.Errorf("finding cgroups: nothing is mounted in %s", root)
	}
	return found, nil
}

// createCgroup makes a cgroup of the name in every hierarchy, ready for children that use all controllers.
func (c cgroups) createCgroup(name string) error {
	if c.unified {
		if err := turnOnControllers(c.hierarchies[0]); err != nil {
			return err
		}
	}
	for _, hierarchy := range c.hierarchies {
		dir := filepath.Join(hierarchy, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making a cgroup: %w", err)
		}
		if err := fillCpuset(hierarchy, dir); err != nil {
			return err
		}
	}
	return nil
}

// turnOnControllers lets the children of a cgroup of v2 use the controllers that it has itself.
func turnOnControllers(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading the controllers: %w", err)
	}
	var enable []string
	for _, name := range strings.Fields(string(data)) {
		if slices.Contains(controllers, name) {
			enable = append(enable, "+"+name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(strings.Join(enable, " ")), 0); err != nil {
		return fmt.Errorf("turning on controllers: %w", err)
	}
	return nil
}

// fillCpuset gives a new cgroup of v1 the processors and memory nodes of its parent: it has none, and takes no process
// until it has.
func fillCpuset(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // not this controller's hierarchy
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("filling in %s of a cgroup: %w", name, err)
		}
	}
	return nil
}

// removeCgroup removes a cgroup without children and processes from every hierarchy.
func (c cgroups) removeCgroup(name string) error {
	var errs []error
	for _, hierarchy := range slices.Backward(c.hierarchies) {
		if err := os.Remove(filepath.Join(hierarchy, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("removing a cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}
