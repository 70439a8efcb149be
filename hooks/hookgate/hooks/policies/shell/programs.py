"""The programs whose arguments are understood, and in which forms. It is data.

Other programs are assumed to run no program whose name is not among their arguments.
"""

# ruff: noqa: E501  # the rows of a table are not wrapped

from collections.abc import Mapping

from hookgate.hooks.policies.shell.usage import ProgramUsage, Subcommands

_HELP = " --help. --version."

_PLAIN_BUILTINS = (
    ": true false echo pwd exit return break continue shift times type cd pushd popd dirs umask ulimit suspend logout fg"
    " bg disown kill caller help"
)

_BUILTINS: Mapping[str, ProgramUsage] = {
    **dict.fromkeys(
        _PLAIN_BUILTINS.split(),
        ProgramUsage(None),
    ),
    **dict.fromkeys(("export", "readonly"), ProgramUsage("-f -n -p", "declarations")),
    **dict.fromkeys(
        ("declare", "typeset", "local"), ProgramUsage("-a -A -f -F -g -l -p -r -t -u -x", "declarations")
    ),
    **dict.fromkeys(("test", "["), ProgramUsage(None, "test")),
    **dict.fromkeys((".", "source"), ProgramUsage("", "script")),
    **dict.fromkeys(("mapfile", "readarray"), ProgramUsage("-d: -n: -O: -s: -t -u:", "names")),
    "alias": ProgramUsage("-p.", "aliases"),
    "builtin": ProgramUsage("", "command"),
    "command": ProgramUsage("-p -v, -V,", "command"),
    "eval": ProgramUsage("", "code"),
    "exec": ProgramUsage("-c -l -a:", "command"),
    "getopts": ProgramUsage("", "value names"),
    "hash": ProgramUsage("-r -l -t"),
    "jobs": ProgramUsage("-l -n -p -r -s"),
    "let": ProgramUsage("", "arithmetic"),
    "printf": ProgramUsage("-v$", "values"),
    "read": ProgramUsage("-r -s -e -a$ -d: -n: -N: -p: -t: -u:", "names"),
    "set": ProgramUsage(
        None, refused=r"[-+](?![eEuxvafnCbT]+$|[eEuxva]*o$|-?$)|(?:hist|key|posix|emacs|vi$|priv|restr|inter)"
    ),
    "shopt": ProgramUsage(
        "-s -u -q -p", refused=r"(?!-|nullglob|globstar|dotglob|nocaseglob|failglob|inherit_errexit)"
    ),
    "trap": ProgramUsage("-l, -p,", "trap"),
    "unalias": ProgramUsage("-a"),
    "unset": ProgramUsage("-f -v -n", "names"),
    "wait": ProgramUsage("-n -f"),
    **dict.fromkeys(("bind", "compgen", "complete", "compopt", "enable", "fc"), ProgramUsage("", "nothing")),
    "history": ProgramUsage("-c -a"),
}

_SHELL_OPTIONS = "-c -e -u -x -l -s -v -n -a -f -h -m -b -o^ -O^ --norc --noprofile --login --posix" + _HELP

_SHELLS: Mapping[str, ProgramUsage] = {
    **dict.fromkeys(("bash", "rbash"), ProgramUsage(_SHELL_OPTIONS, "bash")),
    **dict.fromkeys(("sh", "dash", "ash"), ProgramUsage(_SHELL_OPTIONS, "shell")),
    **dict.fromkeys(("zsh", "ksh", "ksh93", "mksh", "yash"), ProgramUsage(_SHELL_OPTIONS, "similar-shell")),
    **dict.fromkeys(
        ("fish", "csh", "tcsh", "nu", "elvish", "xonsh"),
        ProgramUsage("-c -f -l --version. --help.", "other-shell"),
    ),
}

_WRAPPERS: Mapping[str, ProgramUsage | Subcommands] = {
    "sudo": ProgramUsage(
        "-A -b -B -E -H -k -K -n -N -P -S -C: -D: -g: -h: -p: -r: -t: -T: -u: -l. -v. -V. --askpass --background"
        " --preserve-env? --set-home --non-interactive --stdin --reset-timestamp --chdir: --group: --host:"
        " --prompt: --user: --command-timeout: -i -s --login --shell" + _HELP,
        "assignments command?",
    ),
    "doas": ProgramUsage("-n -s -L. -a: -u:", "command?"),
    "su": ProgramUsage(
        "- -l -m -p -P -f -c! -g: -G: -s: --login --preserve-environment --pty --command! --group: --shell:"
        + _HELP,
        "shell-of-user",
        permutes=True,
    ),
    "env": ProgramUsage(
        "- -i -0 -v -u: -C: -S+ --ignore-environment --null --debug --unset: --chdir: --split-string+"
        + _HELP,
        "assignments command",
    ),
    "timeout": ProgramUsage(
        "-f -p -v -k: -s: --foreground --preserve-status --verbose --kill-after: --signal:" + _HELP,
        "value command",
    ),
    "nice": ProgramUsage("-0 -1 -2 -3 -4 -5 -6 -7 -8 -9 -n: --adjustment:" + _HELP, "command"),
    "ionice": ProgramUsage("-t -c: -n: -p: --ignore --class: --classdata:" + _HELP, "command"),
    "chrt": ProgramUsage(
        "-b -f -i -o -r -p. -m. --batch --fifo --idle --other --rr" + _HELP, "value command"
    ),
    "taskset": ProgramUsage("-a -c -p. --cpu-list --pid." + _HELP, "value command"),
    "numactl": ProgramUsage(
        "-l -N: -m: -i: -C: --cpunodebind: --membind: --interleave: --localalloc -s. -H.", "command"
    ),
    "nohup": ProgramUsage(_HELP, "command"),
    "setsid": ProgramUsage("-c -f -w --ctty --fork --wait" + _HELP, "command"),
    "setpriv": ProgramUsage(
        "--reuid: --regid: --clear-groups --init-groups --no-new-privs --groups:" + _HELP, "command"
    ),
    "prlimit": ProgramUsage(
        "--nofile: --nproc: --as: --cpu: --core: --data: --fsize: --stack:" + _HELP, "command"
    ),
    "time": ProgramUsage(
        "-a -p -q -v -f: -o: --append --portability --quiet --verbose --format: --output:" + _HELP, "command"
    ),
    "stdbuf": ProgramUsage("-i: -o: -e: --input: --output: --error:" + _HELP, "command"),
    "chroot": ProgramUsage("--userspec: --groups: --skip-chdir" + _HELP, "value command?"),
    **dict.fromkeys(("busybox", "toybox"), ProgramUsage("--list. --help.", "command")),
    "watch": ProgramUsage(
        "-b -c -e -g -p -r -t -w -d? -n: --beep --color --errexit --chgexit --precise --no-title --differences?"
        " --interval:" + _HELP,
        "code",
    ),
    "xargs": ProgramUsage(
        "-0 -o -p -r -t -x -i? -a: -d: -E: -I: -L: -n: -P: -s: --null --open-tty --no-run-if-empty --verbose --exit"
        " --replace? --arg-file: --delimiter: --max-args: --max-procs: --max-lines? --max-chars:" + _HELP,
        "input",
    ),
    "parallel": ProgramUsage(
        "-j: -k -q -v -0 -n: -N: --jobs: --keep-order --bar --will-cite" + _HELP, "template"
    ),
    "ssh": ProgramUsage(
        "-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V. -v -X -x -Y -y -B: -b: -c: -D: -E: -e: -I: -i: -J:"
        " -L: -l: -m: -p: -Q: -R: -S: -W: -w: -o=",
        "value+ code?",
    ),
    "mosh": ProgramUsage("-4 -6 -p: --port:" + _HELP, "value+ command?"),
    "sshpass": ProgramUsage("-e -p: -f: -d: -v -V. -h.", "command"),
    "strace": ProgramUsage(
        "-c -C -f -ff -F -i -k -n -q -qq -r -t -tt -ttt -T -v -V. -w -x -xx -y -yy -Z -a: -b: -e: -E: -I: -o: -O: -p:"
        " -P: -s: -S: -u: -U: -h.",
        "command",
        refused=r"-\w*[|!]|[|!]",
    ),
    "ltrace": ProgramUsage("-c -C -f -i -r -S -t -T -e: -o: -p: -n: -s: -l: -x:", "command"),
    "valgrind": ProgramUsage(
        "-q -v --tool: --leak-check: --show-leak-kinds: --track-origins: --error-exitcode: --log-file: --num-callers:"
        " --suppressions: --trace-children:" + _HELP,
        "command",
    ),
    "flock": ProgramUsage(
        "-s -x -u -n -o -w: -E: --shared --exclusive --nonblock --wait: --timeout: --close --verbose" + _HELP,
        "value command-or-code",
    ),
    "unshare": ProgramUsage(
        "-m -u -i -n -p -U -C -T -f -r --mount --net --pid --user --fork --map-root-user", "command?"
    ),
    "runuser": ProgramUsage(
        "- -l -c! -g: -G: -s: -u: --login --command! --shell: --user:", "shell-of-user", permutes=True
    ),
    **dict.fromkeys(("gosu", "su-exec"), ProgramUsage("", "value command")),
    **dict.fromkeys(("tini", "dumb-init"), ProgramUsage("-g -s -v", "command")),
    **dict.fromkeys(
        [
            "noglob",
            "nocorrect",
            "chronic",
            "fakeroot",
            "eatmydata",
            "dbus-run-session",
            "rlwrap",
            "unbuffer",
            "torsocks",
            "proxychains",
            "proxychains4",
            "caffeinate",
            "winpty",
        ],
        ProgramUsage("", "command"),
    ),
    **dict.fromkeys(("and", "or", "not", "begin", "-", "repeat", "foreach"), ProgramUsage("", "nothing")),
    "cross-env": ProgramUsage("", "assignments command"),
    "dotenv": ProgramUsage("-e: -c -o", "command"),
    "hyperfine": ProgramUsage(
        "-w: -r: -m: -M: -N -i -s! -p! -c! --warmup: --runs: --min-runs: --ignore-failure --export-json:"
        " --export-markdown: --setup! --prepare! --cleanup! --show-output --shell:" + _HELP,
        "codes",
        permutes=True,
    ),
    "concurrently": ProgramUsage(
        "-k -n: -c: --kill-others --names: --prefix-colors: -r --raw", "codes", permutes=True
    ),
    "nodemon": ProgramUsage(
        "-q -w: -e: --watch: --ext: --ignore: --exec! -x! --delay: --quiet -v. --version.", "script"
    ),
    "xvfb-run": ProgramUsage(
        "-a -e: -n: -s: --auto-servernum --server-args: --server-num:" + _HELP, "command"
    ),
    "conda": Subcommands(
        _HELP,
        "activate deactivate create install list info env update remove search config clean init",
        {
            "run": ProgramUsage(
                "-n: -p: --name: --prefix: --no-capture-output --live-stream --cwd:", "command"
            )
        },
    ),
    "nix-shell": ProgramUsage("-p: --pure --run! --command!", "values", permutes=True),
    "systemd-run": ProgramUsage(
        "--user --scope --pty -t -P -G --wait --unit: --property: -p: --quiet -q --collect", "command"
    ),
    "script": ProgramUsage(
        "-a -e -f -q -c! --append --flush --quiet --return --command!" + _HELP, "shell-of-user"
    ),
    "entr": ProgramUsage("-c -d -n -p -r -z", "command"),
    **dict.fromkeys(("at", "batch"), ProgramUsage("-c, -l, -d, -r, -f@ -q: -m -M -V.", "stdin-code")),
    "crontab": ProgramUsage("-l. -r. -u:", "nothing"),
}

_RUN_OPTIONS = (
    "-d -i -t -T -P -q -e: -v: -p: -w: -u: -h: -m: -l: --rm --init --detach --interactive --tty --privileged --read-only"
    " --publish-all --quiet --env: --env-file: --volume: --publish: --workdir: --user: --name: --network: --net: --mount:"
    " --hostname: --label: --memory: --cpus: --gpus: --platform: --pull: --restart: --shm-size: --add-host: --cap-add:"
    " --cap-drop: --security-opt: --tmpfs: --ulimit: --ipc: --pid: --link: --log-driver: --device: --entrypoint:"
)
_EXEC_OPTIONS = (
    "-d -i -t -T -e: -u: -w: --detach --interactive --tty --privileged --env: --env-file: --user: --workdir:"
)
_COMPOSE = Subcommands(
    "-f: -p: --file: --project-name: --profile: --env-file: --project-directory:" + _HELP,
    "build config create down events images kill logs ls pause port ps pull push restart rm scale start stats stop top"
    " unpause up version volumes wait watch",
    {
        "exec": ProgramUsage(_EXEC_OPTIONS + " --index: --no-tty", "value command"),
        "run": ProgramUsage(
            _RUN_OPTIONS + " --no-deps --build --service-ports --use-aliases --remove-orphans --no-TTY",
            "image",
        ),
    },
)
_CONTAINER = ProgramUsage(_RUN_OPTIONS, "image")
_DOCKER = Subcommands(
    "-c: -H: -D -l: --context: --host: --debug --log-level: -v." + _HELP,
    "attach build cp diff events export history images info inspect kill load login logout logs"
    " manifest network pause port ps pull push rename restart rm rmi save search start stats stop swarm system tag"
    " top unpause update version volume wait context image builder buildx secret stack node config",
    {
        **dict.fromkeys(("run", "create"), _CONTAINER),
        **dict.fromkeys(("commit", "import"), ProgramUsage(None, refused=r"-\w*c|--ch")),
        "exec": ProgramUsage(_EXEC_OPTIONS, "value command"),
        "service": Subcommands(_HELP, "inspect logs ls ps rm rollback scale"),
        "plugin": Subcommands(_HELP, "disable enable inspect ls rm"),
        "compose": _COMPOSE,
        "container": Subcommands(
            _HELP,
            "cp diff inspect kill logs ls list port prune rename restart rm start stats stop top wait",
            {
                **dict.fromkeys(("run", "create"), _CONTAINER),
                "exec": ProgramUsage(_EXEC_OPTIONS, "value command"),
            },
        ),
    },
)
_KUBECTL = Subcommands(
    "-n: --namespace: --context: --kubeconfig: --cluster: --user: -s: --server: -v:" + _HELP,
    "get describe logs apply delete rollout scale top explain version port-forward wait label annotate cp"
    " cluster-info api-resources api-versions auth autoscale cordon drain uncordon expose replace taint kustomize",
    {
        "exec": ProgramUsage(
            "-i -t -q -c: -n: --stdin --tty --quiet --container: --namespace: --context:", "value+ command"
        ),
        "create": ProgramUsage(None, "searched", refused="--$"),
        **dict.fromkeys(("patch", "set"), ProgramUsage(None, "searched")),
        "config": Subcommands(
            _HELP,
            "current-context delete-cluster delete-context delete-user get-clusters get-contexts get-users rename-context"
            " set-cluster set-context use-context view",
        ),
    },
)

_GIT = Subcommands(
    "-C: -c= -P --no-pager --git-dir: --work-tree: --bare --no-optional-locks --literal-pathspecs -v. -h."
    + _HELP,
    "add am annotate apply blame branch bundle cat-file check-attr check-ignore checkout cherry cherry-pick clean commit"
    " count-objects describe diff diff-files diff-index diff-tree format-patch for-each-ref fsck gc hash-object init log"
    " ls-files ls-tree merge merge-base mv name-rev notes patch-id prune range-diff read-tree reflog replace reset"
    " restore rev-list rev-parse revert rm shortlog show show-branch show-ref sparse-checkout stash status switch"
    " symbolic-ref tag update-index update-ref var verify-commit version whatchanged worktree write-tree lfs",
    {
        "bisect": Subcommands(
            "", "start good bad reset skip log view terms replay", {"run": ProgramUsage("", "command")}
        ),
        "clone": ProgramUsage(None, refused=r"-\w*[uc]|--u|--co|ext::|--template"),
        "remote": ProgramUsage(None, refused="ext::"),
        "config": ProgramUsage(
            "--global --local --system --worktree -l --list --get --get-all --get-regexp --unset --unset-all --add"
            " --replace-all --show-origin --show-scope --type: --bool --int -f: --file: --name-only -z",
            "value+ codes",
            permutes=True,
            refused=r"(?i:protocol\.)",
        ),
        **dict.fromkeys(
            ("fetch", "ls-remote", "pull"), ProgramUsage(None, refused=r"--u(?:p|=|$)|--ex|ext::|-[xX]")
        ),
        "push": ProgramUsage(None, refused=r"--(?:re[^c]?|rec.*|e.*)(?:=|$)|ext::"),
        "grep": ProgramUsage(None, refused=r"-\w*O|--op|--ext-g"),
        "rebase": ProgramUsage(None, refused=r"-\w*x|--ex|-[sS]|--stra"),
        "submodule": Subcommands(
            "-q --quiet",
            "add status init deinit update summary sync absorbgitdirs",
            {"foreach": ProgramUsage("-q --recursive", "code")},
        ),
        "help": ProgramUsage("-a -g -c"),
    },
)

_NODE_PACKAGE_OPTIONS = r"script-s|--?(?:scr|she|cal|c(?:=|$)|node-op|ed|vi|br|gi|init-m)"
_SCRIPTS = ProgramUsage(None, refused=_NODE_PACKAGE_OPTIONS)
_NODE_PACKAGES = (
    "add audit bin ci config cache create dedupe deprecate diff dist-tag docs doctor fund i info import init install"
    " install-ci-test it la link list ll login logout ls outdated owner pack ping pkg prefix profile prune publish rebuild"
    " remove repo restart rm root run run-script search set start stop t team test token tst un uninstall unlink unpublish"
    " up update upgrade version versions view whoami why store licenses"
)
_EXECUTED = ProgramUsage(
    "-y -q --yes --no --no-install --quiet -p: --package: --ignore-existing -w: --workspace:" + _HELP,
    "command",
)
_NPM_OPTIONS = (
    "-s -g -v. -h. -C: -w: -r --silent --quiet --prefix: --workspace: --workspaces --filter: --dir: --cwd:"
    + _HELP
)
_RUN_COMMAND = ProgramUsage("-q -v", "command")
_BUN_RUN = ProgramUsage("-b --bun --hot --watch --silent --filter:", "command")

_CARGO = (
    "add bench build b check c clean clippy d doc fetch fix fmt generate-lockfile init install metadata new nextest"
    " package publish r remove rm run search t test tree uninstall update vendor version audit deny outdated expand"
)

_SUBCOMMANDS: Mapping[str, Subcommands] = {
    **dict.fromkeys(("docker", "podman", "nerdctl"), _DOCKER),
    "docker-compose": _COMPOSE,
    **dict.fromkeys(("kubectl", "oc"), _KUBECTL),
    "git": _GIT,
    **{
        name: Subcommands(
            _NPM_OPTIONS,
            "",
            {
                **dict.fromkeys(_NODE_PACKAGES.split(), _SCRIPTS),
                **dict.fromkeys(("exec", "x", "dlx"), _EXECUTED),
                **({"run": _BUN_RUN} if name == "bun" else {}),
            },
            others,
        )
        for name, others in (("npm", ""), ("pnpm", "command"), ("yarn", "command"), ("bun", "command"))
    },
    "uv": Subcommands(
        "-q -v -n --quiet --verbose --offline --directory: --project: -V." + _HELP,
        "add auth build cache export help init lock pip publish python remove self sync tree venv version format",
        {
            "run": ProgramUsage(
                "-q -v -m: -p: -s --with: --extra: --group: --python: --package: --project: --directory: --frozen --locked"
                " --no-sync --no-project --isolated --all-extras --dev --no-dev --active --script --module: --env-file:"
                " --with-requirements: --with-editable: --quiet --offline --all-packages --exact" + _HELP,
                "run",
            ),
            "tool": Subcommands(
                "",
                "install list upgrade uninstall dir update-shell",
                {"run": ProgramUsage("-q --from: --with: --python: -p:", "command")},
            ),
        },
    ),
    "poetry": Subcommands(
        "-q -n -v -C: -P: --directory: --no-interaction -V." + _HELP,
        "about add build cache check config env export init install list lock new publish remove search show update version"
        " self sync",
        {"run": _RUN_COMMAND},
    ),
    "pdm": Subcommands(
        _HELP + " -V.",
        "add build info init install list lock outdated remove show sync update venv",
        {"run": _RUN_COMMAND},
    ),
    "hatch": Subcommands(_HELP, "build clean dep fmt new publish test version", {"run": _RUN_COMMAND}),
    "pipenv": Subcommands(
        _HELP,
        "check clean graph install lock requirements sync uninstall update verify",
        {"run": _RUN_COMMAND},
    ),
    "pipx": Subcommands(
        _HELP,
        "install inject list upgrade uninstall upgrade-all ensurepath environment reinstall",
        {"run": ProgramUsage("--spec: --python: -q", "command")},
    ),
    "rye": Subcommands(
        _HELP,
        "add build fetch fmt init install lint list lock pin remove show sync test",
        {"run": _RUN_COMMAND},
    ),
    "bundle": Subcommands(
        _HELP,
        "add binstubs cache check clean config info init install list lock outdated remove show"
        " update version",
        {"exec": _RUN_COMMAND},
    ),
    "mise": Subcommands(
        "-q -y" + _HELP,
        "current doctor install list ls outdated use which where activate trust",
        {"exec": ProgramUsage("", "value command")},
    ),
    "direnv": Subcommands(
        _HELP, "allow deny status reload version hook export", {"exec": ProgramUsage("", "value command")}
    ),
    "asdf": Subcommands(
        _HELP, "current install list plugin where which local global reshim", {"exec": _RUN_COMMAND}
    ),
    "cargo": Subcommands(
        "-q -v -V. -C: --offline --locked --frozen" + _HELP,
        "",
        {
            **dict.fromkeys(_CARGO.split(), ProgramUsage(None, refused="--config")),
            "watch": ProgramUsage("-c -q -x: -w: -i:", "command"),
        },
    ),
    "go": Subcommands(
        "-C:",
        "bug clean doc env fix fmt mod work telemetry version help",
        dict.fromkeys(
            ("build", "generate", "get", "install", "list", "run", "test", "vet", "tool"),
            ProgramUsage(None, refused=r"--?(?:exec|toolexec|vettool)|tool$|.*ext(?:ld|ar)"),
        ),
    ),
    "deno": Subcommands(
        "-q -V." + _HELP,
        "add bench bundle cache check clean compile coverage doc fmt info init install lint remove test types"
        " uninstall upgrade vendor",
        {
            "eval": ProgramUsage("-p -q --print --ext: --allow-all -A", "foreign"),
            "task": ProgramUsage(None, refused="--ev"),
            "run": ProgramUsage(
                "-A -q -r --allow-all --allow-read? --allow-write? --allow-net? --allow-env? --allow-run? --watch --no-check"
                " --unstable --config: -c:",
                "script",
            ),
        },
    ),
}

_PYTHON = ProgramUsage(
    "-b -B -d -E -I -O -OO -P -q -s -S -u -v -x -W: -X: -c%; -m~; -h. -V. -VV." + _HELP, "foreign-script"
)
_AWK = ProgramUsage("-F: -v: -f@ --field-separator: --assign: --file@" + _HELP, "foreign")

_INTERPRETERS: Mapping[str, ProgramUsage] = {
    **dict.fromkeys(("python", "pypy", "ipython"), _PYTHON),
    "perl": ProgramUsage(
        "-a -c -n -p -s -t -T -u -U -w -W -X -0# -l# -i? -C# -F~ -I: -M~ -m~ -e% -E% -v. -V." + _HELP,
        "foreign-script",
    ),
    "ruby": ProgramUsage("-a -c -l -n -p -w -i? -I: -r: -e% -v. -W#" + _HELP, "foreign-script"),
    **dict.fromkeys(
        ("node", "nodejs"),
        ProgramUsage(
            "-c -e% -p% -pe% -r~ -v. -h. --check --eval% --print% --require~ --import~ --loader~ --test --watch --no-warnings"
            " --inspect? --inspect-brk? --max-old-space-size: --experimental-vm-modules --experimental-strip-types"
            " --experimental-loader~ --enable-source-maps --env-file: --input-type: --trace-warnings --expose-gc"
            " --test-reporter: --test-name-pattern: --experimental-test-coverage --unhandled-rejections:"
            + _HELP,
            "foreign-script",
        ),
    ),
    **dict.fromkeys(
        ("tsx", "ts-node"),
        ProgramUsage(
            "-e% --eval% -p: --project: -T --transpile-only --esm --watch -v." + _HELP, "foreign-script"
        ),
    ),
    "php": ProgramUsage("-n -l -q -m. -i. -v. -r% -B% -R% -E% -f@ -S: -t:" + _HELP, "foreign-script"),
    **dict.fromkeys(("lua", "luajit"), ProgramUsage("-e% -l: -W -E -v.", "foreign-script")),
    "rscript": ProgramUsage("-e% --vanilla --no-save --no-restore --slave" + _HELP, "foreign-script"),
    "osascript": ProgramUsage("-e% -l: -s:", "foreign-script"),
    "tclsh": ProgramUsage("", "foreign-script"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "sed": ProgramUsage(
        "-n -E -r -s -z -u -i? -l: -e% -f@ --expression% --file@ --quiet --silent --regexp-extended --in-place? --null-data"
        " --separate --posix --debug" + _HELP,
        "foreign",
        permutes=True,
    ),
    "psql": ProgramUsage(
        "-A -a -e -q -t -w -W -x -X -1 -b -c% -d: -f@ -F: -h: -l. -p: -P: -R: -U: -v~ -V. --command% --dbname: --file@"
        " --host: --port: --username: --tuples-only --no-align --csv --set~ --variable~ --no-psqlrc --no-password --quiet"
        " --list. --echo-all --single-transaction" + _HELP,
        "foreign-input",
        permutes=True,
    ),
    "mysql": ProgramUsage(
        "-A -B -N -s -t -v -e% -D: -h: -P: -p? -u: -V. --execute% --database: --host: --port: --user: --password?"
        " --batch --skip-column-names --table --default-character-set:" + _HELP,
        "foreign-input",
        permutes=True,
    ),
    "sqlite3": ProgramUsage(
        "-header -noheader -csv -json -column -table -line -list -markdown -box -batch -readonly -separator: -cmd% -version."
        " -help." + _HELP,
        "value+ foreign-input",
        permutes=True,
    ),
}

_OTHERS: Mapping[str, ProgramUsage] = {
    "find": ProgramUsage(None, "find"),
    **dict.fromkeys(
        ("fd", "fdfind"),
        ProgramUsage(
            "-H -I -u -L -p -a -l -0 -s -i -F -g -q -1 -t: -e: -E: -d: -c: -S: -o: -j: --hidden --no-ignore --follow"
            " --type: --extension: --exclude: --max-depth: --min-depth: --full-path --absolute-path --glob --color: --size:"
            " --changed-within: --changed-before: --max-results: -V." + _HELP,
            permutes=True,
        ),
    ),
    "tar": ProgramUsage(
        "-A -c -d -r -t -u -x -z -j -J -Z -a -v -p -k -m -h -O -S -P -l -w -W -n -f: -C: -T: -X: -b: -N: --create"
        " --extract --list --gzip --bzip2 --xz --zstd --auto-compress --verbose --file: --directory: --exclude:"
        " --exclude-vcs --exclude-from: --strip-components: --files-from: --no-same-owner --no-same-permissions --owner:"
        " --group: --mode: --mtime: --sort: --numeric-owner --transform: --wildcards --keep-old-files --overwrite"
        " --one-top-level? --dereference --totals --no-recursion --append --update --diff --get --null"
        + _HELP,
        "bundled",
        permutes=True,
    ),
    "rsync": ProgramUsage(
        "-a -r -v -z -h -n -u -l -L -p -t -g -o -D -c -P -q -x -H -A -X -S -R -W -i -I -C -m -0 -e& -f: --rsh&"
        " --archive --recursive --verbose --compress --human-readable --dry-run --update --delete --delete-after"
        " --delete-before --delete-excluded --exclude: --include: --exclude-from: --include-from: --filter: --progress"
        " --partial --stats --checksum --inplace --size-only --ignore-existing --links --copy-links --perms --times"
        " --info: --chmod: --chown: --bwlimit: --itemize-changes --no-perms --no-owner --no-group --relative --mkpath"
        " --existing --quiet --prune-empty-dirs --files-from: --max-size: --timeout: --remove-source-files"
        + _HELP,
        permutes=True,
    ),
    "scp": ProgramUsage("-3 -4 -6 -A -B -C -p -q -r -T -v -c: -F@ -i: -J: -l: -o= -P:", permutes=True),
    "make": ProgramUsage(
        "-b -B -e -i -k -n -p -q -r -R -s -S -t -v. -w -C: -f@ -I: -j# -l# -o: -W: --always-make --directory: --file@"
        " --makefile@ --ignore-errors --include-dir: --jobs? --keep-going --dry-run --just-print --silent --quiet"
        " --no-builtin-rules --no-print-directory --print-directory --touch --question --trace --output-sync? -O?"
        " --warn-undefined-variables" + _HELP,
        "targets",
        permutes=True,
    ),
    "less": ProgramUsage("-N -R -S -F -X -r -i -n -s -M -e -E -V.", permutes=True, refused=r"\+"),
    "more": ProgramUsage("-n: -d -f -l -p -c -s -u", permutes=True, refused=r"\+"),
    "man": ProgramUsage("-k -f -a -w -W -K -s: -S: -L: -V." + _HELP, permutes=True),
    "nc": ProgramUsage("-4 -6 -k -l -n -u -v -z -N -w: -p: -q: -s: -X: -x: -i:", permutes=True),
    "ip": ProgramUsage(None, refused=r"n(?:e|$)|v(?:r|$)|-b"),
    **dict.fromkeys(
        ("gcc", "g++", "cc", "c++", "clang", "clang++"),
        ProgramUsage(None, refused=r"-wrapper|-B|-fplugin|-specs|--specs|@|-f?use-ld|--ld"),
    ),
    "wget": ProgramUsage(None, refused=r"--use-a|-\w*e|--exe|--conf"),
    "install": ProgramUsage(None, refused=r"--st"),
    **dict.fromkeys(("sdiff", "diff3"), ProgramUsage(None, refused=r"--d")),
    **dict.fromkeys(("apt", "apt-get"), ProgramUsage(None, refused=r"-\w*[oc]|--o|--c")),
    "systemctl": ProgramUsage(None, refused=r"edit"),
    "pandoc": ProgramUsage(None, refused=r"-\w*[FLd]|--f.*il|--lua|--pdf-e|--def"),
    "cpio": ProgramUsage(None, refused=r"--rs"),
    "tcpdump": ProgramUsage(None, refused=r"-\w*z"),
    "sort": ProgramUsage(None, refused=r"--co"),
    "split": ProgramUsage(None, refused=r"--f"),
    "zip": ProgramUsage(None, refused=r"-\w*T|--u|--te"),
    "rg": ProgramUsage(None, refused=r"--pre(?:=|$)|--host"),
    **dict.fromkeys(("ag", "ack", "bat"), ProgramUsage(None, refused=r"--pag(?:e$|er|=|$)")),
    "cmake": ProgramUsage(
        "-B: -S: -G: -D= -U: -A: -T: -L -N -j? -v --build: --install: --target: --config: --parallel? --preset: --fresh"
        " --verbose --prefix: -t: --clean-first --list-presets?" + _HELP,
        permutes=True,
        refused=r"--ev|-f|[A-Za-z_]+=",
    ),
}

_NOT_UNDERSTOOD = (
    # interpreters
    "R bb clojure coffee crystal dc elixir erb erl ghc ghci gnuplot gp groovy guile irb iex jrunscript jshell julia"
    " kotlinc m4 maxima mlr nim ocaml octave powershell pry pwsh qjs racket rake raku runghc sage sbcl scala swipl wish"
    " duckdb mongosh wp"
    # editors, terminals and programs with a command of their own that starts a shell
    " ed emacs emacsclient ex gdb lftp ftp lldb mail mutt nano nvim rvim screen sftp telnet tmux vi view vim vimdiff"
    " byobu zellij dtach abduco expect script-replay asciinema fzf ranger mc debugfs xterm gnome-terminal konsole"
    # programs that run their arguments, with options that are not understood
    " adb ansible autossh bwrap capsh catchsegv cgexec choom chpst cmd.exe coresched cpulimit crictl ctest daemon daemonize"
    " envdir faketime fakechroot firejail flatpak heroku i386 ifne incus ld-linux-x86-64.so.2 ld.so linux32 linux64 logsave"
    " lxc machinectl minijail0 mispipe mpiexec mpirun newgrp nsenter nsjail nsys open perf pkexec proot qsub rr rtk run0"
    " run-parts runcon runit schroot setarch setlock setuidgid sg snap socat softlimit srun ssh-agent stack start"
    " start-stop-daemon su-to-root systemd-cat systemd-inhibit systemd-nspawn tsp uclampset uname26 vagrant watchexec"
    " wine wsl x86_64 xdg-open zrun ncat"
)

_PLAIN = (
    # files and texts
    "arch b2sum base32 base64 basename bc bzip2 cal cat chattr chgrp chmod chown cksum clear cloc cmp column comm cp"
    " csplit cut dd df diff dir dirname dos2unix du egrep expand expr exa eza factor fgrep file fmt fold getconf getfacl"
    " grep groups gunzip gzip head hexdump iconv join jq link ln locate look ls lsattr lz4 md5sum mkdir mkfifo"
    " mktemp mv nl numfmt od paste pr printenv ptx readlink realpath rev rm rmdir seq sha1sum sha224sum"
    " sha256sum sha384sum sha512sum shred shuf stat strings sum tac tail tee touch tr tree truncate tsort ul unexpand uniq"
    " unlink unzip uuencode wc xxd xz yes zcat zgrep zstd fold unix2dos"
    # the system
    " chage date dmesg free hostname id journalctl kill killall last lsblk lscpu lsof lspci nproc passwd pgrep"
    " pidof pkill ps pstree sleep ss stty sw_vers sync tput tty ulimit uname uptime useradd"
    " userdel usermod vmstat w whereis which who whoami apk dnf yum"
    # networks
    " curl dig host ifconfig ip netstat nslookup ping traceroute openssl"
    # development; what can run other programs is not in the table, so that its arguments are searched for them
    " black flake8 isort ruff tsc gofmt rustfmt"
)

PROGRAMS: Mapping[str, ProgramUsage | Subcommands] = {
    **dict.fromkeys(_PLAIN.split(), ProgramUsage(None)),
    **dict.fromkeys(_NOT_UNDERSTOOD.split(), ProgramUsage(_HELP, "nothing")),
    **_BUILTINS,
    **_SHELLS,
    **_WRAPPERS,
    **_SUBCOMMANDS,
    **_INTERPRETERS,
    **_OTHERS,
    **dict.fromkeys(("npx", "bunx", "uvx", "pnpx"), _EXECUTED),
    **{
        f"g{name}": _WRAPPERS[name] for name in ("env", "timeout", "nice", "nohup", "stdbuf", "xargs", "time")
    },
    **{f"g{name}": _OTHERS[name] for name in ("find", "tar", "make", "sort", "split")},
    "gsed": _INTERPRETERS["sed"],
}
"""The understood arguments of programs, by their names."""
