from ccltui.api import Frame as Frame
from ccltui.api import Job as Job
from ccltui.api import Rank as Rank
from ccltui.api import Result as Result
from ccltui.api import open as open

__version__: str
