package kubelet

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
)

// folder signals when sockets come and go in kubelet's folder of device plugins, when kubelet writes its checkpoint there, as it does with each list of
// a plugin, and when the folder is removed and recreated.
type folder struct {
	path    string
	watcher *fsnotify.Watcher
	log     *slog.Logger
	// changed is nil if the system cannot signal changes, so waiters also poll.
	changed chan struct{}
	done    sync.WaitGroup
}

func watchFolder(path string, log *slog.Logger) *folder {
	path = filepath.Clean(path)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		if err = errors.Join(watcher.Add(filepath.Dir(path)), watcher.Add(path)); err != nil {
			_ = watcher.Close()
		}
	}
	if err != nil {
		log.Warn("Watching kubelet's folder: a kubelet that restarts is found a little later", "folder", path, "error", err)
		return &folder{}
	}
	f := &folder{path: path, watcher: watcher, log: log, changed: make(chan struct{}, 1)}
	f.done.Go(f.forwardEvents)
	return f
}

// forwardEvents forwards a signal for each change. Errors, such as an overflow, count as changes.
func (f *folder) forwardEvents() {
	for {
		select {
		case event, ok := <-f.watcher.Events:
			switch {
			case !ok:
				return
			case event.Name == f.path && event.Has(fsnotify.Create):
				f.renewWatch() // earlier changes in it were not signaled
			case filepath.Dir(event.Name) != f.path || !isOfInterest(filepath.Base(event.Name)):
				continue // kubelet's temporary files, or something outside the folder
			}
		case _, ok := <-f.watcher.Errors:
			if !ok {
				return
			}
		}
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
}

func isOfInterest(name string) bool {
	return strings.HasSuffix(name, ".sock") || name == checkpoint.FileName
}

// renewWatch watches the current folder, since the existing watch is of a removed or renamed one.
func (f *folder) renewWatch() {
	_ = f.watcher.Remove(f.path) // it may be gone with the folder
	if err := f.watcher.Add(f.path); err != nil {
		f.log.Warn("Watching kubelet's folder: a kubelet that restarts is found a little later", "folder", f.path, "error", err)
	}
}

func (f *folder) close() {
	if f.watcher == nil {
		return
	}
	_ = f.watcher.Close()
	f.done.Wait()
}
