package kubelet

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// folder tells when sockets come and go in kubelet's folder of device plugins, also when that is removed and made anew.
type folder struct {
	path    string
	watcher *fsnotify.Watcher
	log     *slog.Logger
	// changed is nil where the system cannot tell: who waits for it looks from time to time as well.
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
	f.done.Go(f.run)
	return f
}

// run passes on that something happened. Errors, such as that too much happened at once, count as well.
func (f *folder) run() {
	for {
		select {
		case event, ok := <-f.watcher.Events:
			switch {
			case !ok:
				return
			case event.Name == f.path && event.Has(fsnotify.Create):
				f.follow() // what is in it by then was not told of
			case filepath.Dir(event.Name) != f.path || !strings.HasSuffix(event.Name, ".sock"):
				continue // kubelet's checkpoint, or something beside the folder
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

// follow watches the folder that is there now: the watch is of one that was removed, or is called otherwise by now.
func (f *folder) follow() {
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
