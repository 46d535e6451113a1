# cython: language_level=3
"""End this process in order where a file is cut while it is mapped.

The kernel then sends SIGBUS to whoever touches a page beyond the new end. Python handles signals
between instructions, and the one that failed is repeated for ever: the handler has to be in C.
"""

cdef extern from *:
    """
    #include <signal.h>
    #include <string.h>
    #include <termios.h>
    #include <unistd.h>

    static const char ccltui_cut[] =
        "ccltui: a file of the store was cut while it was in use; run the command again\\n";

    static int ccltui_terminal = -1;
    static struct termios ccltui_settings;
    static char ccltui_farewell[256];
    static size_t ccltui_farewell_bytes;

    static void ccltui_on_bus_error(int number, siginfo_t *info, void *context)
    {
        (void)context;
        if (info->si_code == BUS_ADRERR) {  /* no such page in the file, or it cannot be read */
            ssize_t written = 0;
            if (ccltui_terminal >= 0) {
                written += write(ccltui_terminal, ccltui_farewell, ccltui_farewell_bytes);
                tcsetattr(ccltui_terminal, TCSANOW, &ccltui_settings);
            }
            written += write(2, ccltui_cut, sizeof ccltui_cut - 1);
            (void)written;
            _exit(1);
        }
        signal(number, SIG_DFL);  /* another error of hardware or code: repeated on return */
    }

    static int ccltui_end_in_order(void)
    {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = ccltui_on_bus_error;
        action.sa_flags = SA_SIGINFO;
        sigemptyset(&action.sa_mask);
        return sigaction(SIGBUS, &action, 0);
    }

    static int ccltui_remember(int terminal, const char *farewell, size_t bytes)
    {
        if (bytes > sizeof ccltui_farewell || tcgetattr(terminal, &ccltui_settings))
            return -1;
        memcpy(ccltui_farewell, farewell, bytes);
        ccltui_farewell_bytes = bytes;
        ccltui_terminal = terminal;
        return 0;
    }
    """
    int ccltui_end_in_order() nogil
    int ccltui_remember(int, const char *, size_t) nogil


def end_in_order():
    """Install the handler for the whole process. Raises OSError."""
    if ccltui_end_in_order():
        raise OSError("SIGBUS cannot be handled")


def restore_terminal(int terminal, bytes farewell):
    """Let the handler write ``farewell`` and bring back the present settings of a terminal.

    Without effect where it is none, or ``farewell`` is too long.
    """
    ccltui_remember(terminal, farewell, len(farewell))
